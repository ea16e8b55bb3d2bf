"""A game whose agents take turns, with the interface of PettingZoo's AEC environments but without PettingZoo."""


class Heap:
    possible_agents = ["first", "second"]

    def agent_iter(self):
        yield from self.possible_agents

    def last(self):
        return None, 0.0, False, False, {}

    def reset(self, seed=None, options=None):
        pass

    def step(self, action):
        pass


def env(**kwargs):
    return Heap(**kwargs)
