"""Reinforcement learning of TorchRL: PPO on an environment written here, DQN's and SAC's losses, a replay buffer."""

import os

os.environ["RL_LOGGING_LEVEL"] = "ERROR"
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.data import Bounded, Composite, LazyMemmapStorage, LazyTensorStorage, TensorDictReplayBuffer, Unbounded
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import EnvBase, StepCounter, TransformedEnv
from torchrl.modules import NormalParamExtractor, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, DQNLoss, SACLoss, SoftUpdate
from torchrl.objectives.value import GAE

STEPS = 30
ROUNDS = 4  # of walks, each seen four times in two parts


class Line(EnvBase):
    """A point on a line that is pushed to its middle."""

    def __init__(self):
        super().__init__(batch_size=[])
        self.observation_spec = Composite(observation=Unbounded(2))
        self.action_spec = Bounded(-1.0, 1.0, (1,))
        self.reward_spec = Unbounded(1)

    def _reset(self, tensordict=None):
        return TensorDict({"observation": torch.tensor([1.0, 0.0])}, [])

    def _step(self, tensordict):
        place, speed = tensordict["observation"].unbind(-1)
        speed = 0.9 * speed + 0.1 * tensordict["action"].squeeze(-1)
        now = torch.stack([place + speed, speed], -1)
        done = (now[0].abs() > 3).reshape(1)
        return TensorDict({"observation": now, "reward": -now[:1].square(), "done": done, "terminated": done}, [])

    def _set_seed(self, seed):
        torch.manual_seed(seed or 0)


torch.manual_seed(0)
env = TransformedEnv(Line(), StepCounter(max_steps=16))
net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2), NormalParamExtractor())
policy = TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
actor = ProbabilisticActor(
    policy,
    spec=env.action_spec,
    in_keys=["loc", "scale"],
    distribution_class=TanhNormal,
    distribution_kwargs={"low": -1.0, "high": 1.0},
    return_log_prob=True,
)
value = ValueOperator(torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)))
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=value, average_gae=True)
ppo = ClipPPOLoss(actor, value, clip_epsilon=0.2, entropy_coeff=0.01)
optimizer = torch.optim.Adam(ppo.parameters(), 1e-2)
buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(32), sampler=SamplerWithoutReplacement(), batch_size=8)
for number in range(ROUNDS):
    with torch.no_grad():
        walk = env.rollout(16, actor)
    print("walk", tuple(walk.batch_size), f"{walk['next', 'reward'].mean().item():.4f}")
    for _ in range(4):
        advantage(walk)
        buffer.empty()
        buffer.extend(walk.reshape(-1))
        for part in range(2):
            found = ppo(buffer.sample())
            loss = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(ppo.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if number in (0, ROUNDS - 1):
                print("PPO", part, f"{loss.item():.4f} {norm.item():.4f}")

q = QValueActor(torch.nn.Linear(2, 3), in_keys=["observation"], action_space="one-hot")
dqn = DQNLoss(q, action_space="one-hot", delay_value=True)
updater = SoftUpdate(dqn, eps=0.9)
steps = TensorDict(
    {
        "observation": torch.randn(6, 2),
        "action": torch.nn.functional.one_hot(torch.arange(6) % 3, 3),
        "next": TensorDict(
            {
                "observation": torch.randn(6, 2),
                "reward": torch.randn(6, 1),
                "done": torch.zeros(6, 1, dtype=torch.bool),
                "terminated": torch.zeros(6, 1, dtype=torch.bool),
            },
            [6],
        ),
    },
    [6],
)
optimizer = torch.optim.SGD(dqn.parameters(), 0.1)
for step in range(STEPS):
    loss = dqn(steps)["loss"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    updater.step()
    if step < 2 or step == STEPS - 1:
        print("DQN", f"{loss.item():.4f}")


class Both(torch.nn.Module):
    """The value of an observation and an action."""

    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(3, 1)

    def forward(self, observation, action):
        return self.line(torch.cat([observation, action], -1))


sac = SACLoss(actor, ValueOperator(Both(), in_keys=["observation", "action"]), num_qvalue_nets=2)
steps["action"] = torch.rand(6, 1) - 0.5
found = sac(steps)
print("SAC", *(f"{found[k].item():.4f}" for k in ("loss_actor", "loss_qvalue", "loss_alpha")))
(found["loss_actor"] + found["loss_qvalue"] + found["loss_alpha"]).backward()
print("slopes", [f"{p.grad.norm().item():.4f}" for p in sac.parameters() if p.grad is not None])
stored = TensorDictReplayBuffer(storage=LazyMemmapStorage(12), batch_size=4)
stored.extend(steps)
stored.extend(steps)
print("buffer", len(stored), tuple(stored.sample()["observation"].shape))
chain = TensorDictSequential(policy, TensorDictModule(torch.tanh, in_keys=["loc"], out_keys=["out"]))
print("chain", f"{chain(steps.select('observation'))['out'].sum().item():.4f}")
