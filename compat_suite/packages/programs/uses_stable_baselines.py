"""Reinforcement learning of Stable-Baselines3: five algorithms for some steps, saved and loaded."""

import tempfile

import numpy as np
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3

late = {"learning_starts": 10, "batch_size": 8}
# Each for so many steps that its networks are trained more than thirty times.
ALGORITHMS = (
    (PPO, "CartPole-v1", {"n_steps": 32, "batch_size": 16, "n_epochs": 4}, 128),
    (A2C, "CartPole-v1", {}, 160),
    (DQN, "CartPole-v1", {**late, "target_update_interval": 10}, 140),
    (SAC, "Pendulum-v1", late, 50),
    (TD3, "Pendulum-v1", late, 50),
)
for algorithm, game, options, steps in ALGORITHMS:
    model = algorithm("MlpPolicy", game, seed=0, device="cpu", policy_kwargs={"net_arch": [16, 16]}, **options)
    model.learn(steps)
    said = {k: f"{float(v):.3f}" for k, v in sorted(model.logger.name_to_value.items()) if "time" not in k}
    print(algorithm.__name__, said)
    where = np.zeros(model.observation_space.shape, np.float32)
    action = model.predict(where, deterministic=True)[0]
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        again = algorithm.load(f"{folder}/model", device="cpu")
    print(action, np.allclose(again.predict(where, deterministic=True)[0], action))
