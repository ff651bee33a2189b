"""Balance a pole by trial and error: REINFORCE, or an actor with a critic. An ordinary PyTorch script."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical


class Pole:
    """A pole on a cart that is pushed to the left or to the right."""

    def reset(self):
        self.state = (torch.rand(4) * 0.1 - 0.05).tolist()
        self.steps = 0
        return torch.tensor(self.state)

    def step(self, action):
        x, speed, angle, spin = self.state
        force = 10.0 if action == 1 else -10.0
        sin, cos = math.sin(angle), math.cos(angle)
        push = (force + 0.05 * spin**2 * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        pull = push - 0.05 * turn * cos / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * spin, spin + 0.02 * turn]
        self.steps += 1
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return torch.tensor(self.state), 1.0, fallen


class Policy(nn.Module):
    def __init__(self, width, critic):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Dropout(0.1), nn.ReLU())
        self.action = nn.Linear(width, 2)
        self.value = nn.Linear(width, 1) if critic else None

    def forward(self, x):
        x = self.body(x)
        return F.softmax(self.action(x), dim=-1), None if self.value is None else self.value(x)


def play(policy, world, limit):
    """One episode: what was likely, what was expected, what came."""
    logs, values, rewards = [], [], []
    state = world.reset()
    for _ in range(limit):
        chances, value = policy(state)
        choice = Categorical(chances)
        action = choice.sample()
        state, reward, fallen = world.step(action.item())
        logs.append(choice.log_prob(action))
        values.append(value)
        rewards.append(reward)
        if fallen:
            break
    return logs, values, rewards


def returns(rewards, discount):
    total, found = 0.0, []
    for reward in reversed(rewards):
        total = reward + discount * total
        found.insert(0, total)
    found = torch.tensor(found)
    return (found - found.mean()) / (found.std() + 1e-6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--critic", action="store_true", help="learn what to expect, too")
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--limit", type=int, default=100, help="steps of an episode")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--print-every", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    policy = Policy(args.width, args.critic)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    world, average = Pole(), 10.0
    for episode in range(args.episodes):
        logs, values, rewards = play(policy, world, args.limit)
        found = returns(rewards, args.discount)
        if args.critic:
            expected = torch.cat(values)
            surprise = found - expected.detach()
            loss = -(torch.stack(logs) * surprise).sum() + F.smooth_l1_loss(expected, found, reduction="sum")
        else:
            loss = sum(-log * value for log, value in zip(logs, found))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average += 0.05 * (len(rewards) - average)
        if episode % args.print_every == 0 or episode == args.episodes - 1:
            print(f"episode {episode}  length {len(rewards)}  average {average:.2f}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
