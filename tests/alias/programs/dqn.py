"""Q-learning with a replay memory and a target network."""

import random, math, numpy as np
from collections import namedtuple, deque
from itertools import count
import torch, torch.nn as nn, torch.optim as optim, torch.nn.functional as F

random.seed(0)
np.random.seed(0)
torch.manual_seed(5)
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class Memory:
    def __init__(s, n):
        s.m = deque([], maxlen=n)

    def push(s, *a):
        s.m.append(Transition(*a))

    def sample(s, n):
        return random.sample(s.m, n)

    def __len__(s):
        return len(s.m)


class DQN(nn.Module):
    def __init__(s):
        super().__init__()
        s.l1 = nn.Linear(2, 16)
        s.l2 = nn.Linear(16, 2)

    def forward(s, x):
        return s.l2(F.relu(s.l1(x)))


policy, target = DQN(), DQN()
target.load_state_dict(policy.state_dict())
opt = optim.AdamW(policy.parameters(), lr=1e-3, amsgrad=True)
mem = Memory(200)
steps = 0


def act(state):
    global steps
    eps = 0.05 + 0.85 * math.exp(-steps / 50)
    steps += 1
    if random.random() > eps:
        with torch.no_grad():
            return policy(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(2)]], dtype=torch.long)


def optimize():
    if len(mem) < 16:
        return
    batch = Transition(*zip(*mem.sample(16)))
    mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
    nf = torch.cat([s for s in batch.next_state if s is not None])
    q = policy(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    nv = torch.zeros(16)
    with torch.no_grad():
        nv[mask] = target(nf).max(1).values
    loss = nn.SmoothL1Loss()(q, (nv * 0.99 + torch.cat(batch.reward)).unsqueeze(1))
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
    opt.step()
    return loss.item()


for ep in range(5):
    pos = np.random.uniform(-1, 1, 2).astype(np.float32)
    state = torch.tensor(pos).unsqueeze(0)
    total = 0
    last = None
    for t in count():
        a = act(state)
        pos = pos + (np.array([0.2, 0], np.float32) if a.item() else np.array([0, 0.2], np.float32))
        r = -float(np.abs(pos).sum())
        done = t >= 12
        nxt = None if done else torch.from_numpy(pos.copy()).unsqueeze(0)
        mem.push(state, a, nxt, torch.tensor([r]))
        state = nxt
        last = optimize() or last
        total += r
        td, pd = target.state_dict(), policy.state_dict()
        for k in pd:
            td[k] = pd[k] * 0.005 + td[k] * 0.995
        target.load_state_dict(td)
        if done:
            break
    print(ep, f"{total:.4f}", None if last is None else f"{last:.5f}")
