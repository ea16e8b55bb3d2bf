"""A module with a class of a parallel environment, and no function `parallel_env`."""

import pronk_test_parallel


class Game(pronk_test_parallel.Tag):
    pass
