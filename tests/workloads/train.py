# SPDX-License-Identifier: GPL-2.0-or-later
"""A PyTorch training loop on the CPU with an environment simulated in Python. Usage: train.py [seconds] [conv]

With "conv" the network has convolutions, which run in machine code that is generated for the processor at hand.
"""
import random
import sys
import time

import torch


class CartPole:
    """The textbook's cart and pole, in plain Python."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.reset()

    def reset(self):
        self.state = [self.random.uniform(-0.05, 0.05) for _ in range(4)]
        return list(self.state)

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force = 10.0 if action else -10.0
        theta_acc = (9.8 * theta - force * 0.1) / 0.65
        x_acc = force - 0.05 * theta_acc
        self.state = [x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc]
        over = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2
        return list(self.state), 0.0 if over else 1.0, over


def collect(envs, observations, policy):
    """One step of every environment."""
    with torch.no_grad():
        actions = policy(torch.tensor(observations)).argmax(dim=1).tolist()
    rewards = []
    for i, env in enumerate(envs):
        observations[i], reward, over = env.step(actions[i])
        rewards.append(reward)
        if over:
            observations[i] = env.reset()
    return rewards


def train_step(policy, vision, optimizer, observations, rewards):
    target = torch.tensor(rewards).unsqueeze(1).expand(-1, 2)
    loss = torch.nn.functional.mse_loss(policy(torch.tensor(observations)), target)
    if vision:
        image = torch.tensor(observations).repeat(1, 64).reshape(-1, 1, 16, 16)
        loss = loss + vision(image).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def networks(with_conv):
    policy = torch.nn.Sequential(
        torch.nn.Linear(4, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 2)
    )
    if not with_conv:
        return policy, None, list(policy.parameters())
    vision = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3))
    return policy, vision, list(policy.parameters()) + list(vision.parameters())


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    torch.manual_seed(1)
    policy, vision, parameters = networks("conv" in sys.argv[2:])
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    envs = [CartPole(seed) for seed in range(32)]
    observations = [env.reset() for env in envs]
    started = False
    while time.monotonic() < deadline:
        rewards = collect(envs, observations, policy)
        train_step(policy, vision, optimizer, observations, rewards)
        if not started:
            started = True
            print("ready", flush=True)
    print("checksum torch", flush=True)


if __name__ == "__main__":
    main()
