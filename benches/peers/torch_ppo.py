"""PPO in PyTorch, written as single-file implementations such as CleanRL's are, measured by `cargo xtask peers`.

Environments and learner take turns: all environments step, then the network learns. `--vector` is `sync` or `async`,
Gymnasium's vector environments, or `ale`, the vectoriser of ale-py.
"""

import gymnasium
import numpy as np
import torch
from torch import nn

from measured import Meter, make_game, options


def layer(kind, *sizes, std=np.sqrt(2)):
    made = kind(*sizes)
    nn.init.orthogonal_(made.weight, std)
    nn.init.zeros_(made.bias)
    return made


class Agent(nn.Module):
    def __init__(self, game, n_actions):
        super().__init__()
        self.scale = 255 if game == "pong" else 1
        if game == "pong":
            self.torso = nn.Sequential(
                layer(nn.Conv2d, 4, 32, 8, 4), nn.ReLU(), layer(nn.Conv2d, 32, 64, 4, 2), nn.ReLU(),
                layer(nn.Conv2d, 64, 64, 3, 1), nn.ReLU(), nn.Flatten(), layer(nn.Linear, 3136, 512), nn.ReLU(),
            )  # fmt: skip
            self.actor, self.critic = nn.Sequential(), nn.Sequential()
        else:
            self.torso, (self.actor, self.critic) = nn.Sequential(), (mlp() for _ in range(2))
        width = 512 if game == "pong" else 64
        self.policy, self.value = layer(nn.Linear, width, n_actions, std=0.01), layer(nn.Linear, width, 1, std=1)

    def forward(self, observations):
        hidden = self.torso(observations.float() / self.scale)
        logits, value = self.policy(self.actor(hidden)), self.value(self.critic(hidden))
        return torch.distributions.Categorical(logits=logits, validate_args=False), value[:, 0]


def mlp():
    return nn.Sequential(layer(nn.Linear, 4, 64), nn.Tanh(), layer(nn.Linear, 64, 64), nn.Tanh())


def vector(args):
    if args.vector == "ale":
        from ale_py.vector_env import AtariVectorEnv

        return AtariVectorEnv(args.game, args.envs, num_threads=2, reward_clipping=True)
    kind = gymnasium.vector.SyncVectorEnv if args.vector == "sync" else gymnasium.vector.AsyncVectorEnv
    same_step = gymnasium.vector.AutoresetMode.SAME_STEP
    return kind([lambda: make_game(args.game)] * args.envs, autoreset_mode=same_step)


def main():
    parser = options(__doc__)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--lambda", type=float, default=0.95, dest="lam")
    parser.add_argument("--entropy", type=float, default=0.01)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    envs = vector(args)
    agent = Agent(args.game, envs.single_action_space.n)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)
    meter = Meter(args)
    observation, _ = envs.reset(seed=args.seed)
    ended, returns, env_steps, is_over = np.zeros(args.envs, bool), np.zeros(args.envs), 0, False
    while not is_over:
        rollout = []
        for _ in range(args.steps):
            seen = torch.as_tensor(np.array(observation))
            with torch.no_grad():
                distribution, value = agent(seen)
                action = distribution.sample()
            observation, reward, terminated, truncated, _ = envs.step(action.numpy())
            rollout.append((seen, action, distribution.log_prob(action), value, reward, ended))
            ended = terminated | truncated
            returns += reward
            for episode in returns[ended]:
                meter.episode(episode)
            returns[ended] = 0
            env_steps += args.envs
            if meter.over(env_steps):
                break
        if meter.over(env_steps):
            break
        optimizer.param_groups[0]["lr"] = args.lr * (1 - env_steps / args.budget)
        learn(agent, optimizer, rollout, observation, ended, args)
        is_over = meter.updated(env_steps)
    meter.finish()
    envs.close()


def learn(agent, optimizer, rollout, observation, ended, args):
    observations, actions, logps, values, rewards, starts = zip(*rollout)
    with torch.no_grad():
        value = agent(torch.as_tensor(np.array(observation)))[1]
    advantages, advantage = [], torch.zeros(args.envs)
    ends = [*starts[1:], ended]
    for t in reversed(range(args.steps)):
        goes_on = torch.as_tensor(1.0 - ends[t], dtype=torch.float32)
        delta = torch.as_tensor(rewards[t], dtype=torch.float32) + args.gamma * goes_on * value - values[t]
        advantage = delta + args.gamma * args.lam * goes_on * advantage
        value = values[t]
        advantages.insert(0, advantage)
    flat = [torch.cat(column) for column in (observations, actions, logps, values, advantages)]
    for _ in range(args.epochs):
        for some in torch.randperm(len(flat[0])).split(args.minibatch):
            seen, done, logp, value, advantage = (column[some] for column in flat)
            distribution, estimate = agent(seen)
            ratio = (distribution.log_prob(done) - logp).exp()
            target = advantage + value
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            loss = -surrogate + 0.25 * ((estimate - target) ** 2).mean()
            loss = loss - args.entropy * distribution.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


if __name__ == "__main__":
    main()
