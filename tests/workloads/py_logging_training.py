# SPDX-License-Identifier: GPL-2.0-or-later
"""A training loop that spends 80 % of its CPU time in logging calls; the rest is simulators, observations, a policy and an
optimizer. How many lines are logged follows the clock, so that the share holds on any machine.
Usage: py_logging_training.py [seconds] [share of logging, 0 to 0.95]"""
import logging
import os
import sys
import time

log = logging.getLogger("training")


class PoleEnv:
    def __init__(self, seed):
        self.position, self.speed, self.angle = 0.0, 0.0, 0.01 * seed

    def step(self, action):
        for _ in range(40):
            self.speed += 0.02 * (action - 0.5) + 0.001 * self.angle
            self.position += 0.02 * self.speed
            self.angle += 0.02 * self.speed - 0.0001 * self.angle
        if abs(self.position) > 5:
            self.position = self.speed = 0.0
        return self.position, self.speed, self.angle


class VectorEnv:
    def __init__(self, n):
        self.envs = [PoleEnv(seed) for seed in range(n)]

    def step(self, actions):
        return [env.step(action) for env, action in zip(self.envs, actions)]


def encode_observations(states):
    return [[x * scale for x in state for scale in (0.1, 0.5, 1.0, 2.0)] for state in states]


class Policy:
    def __init__(self, n_inputs):
        self.weights = [0.01 * i for i in range(n_inputs)]

    def forward(self, batch):
        return [sum(w * x for w, x in zip(self.weights, row)) for row in batch]


class SGDOptimizer:
    def __init__(self, policy):
        self.policy = policy

    def step(self, outputs, batch):
        for output, row in zip(outputs, batch):
            for i, x in enumerate(row):
                self.policy.weights[i] -= 1e-6 * output * x


def train_step(envs, policy, optimizer, actions):
    states = envs.step(actions)
    batch = encode_observations(states)
    outputs = policy.forward(batch)
    optimizer.step(outputs, batch)
    return [1.0 if output > 0 else 0.0 for output in outputs]


def log_step(step, actions):
    for number, action in enumerate(actions):
        log.info("step %d env %d action %.1f at %s", step, number, action, "train")


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    share = min(float(sys.argv[2]), 0.95) if len(sys.argv) > 2 else 0.8
    handler = logging.StreamHandler(open(os.devnull, "w"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(filename)s:%(lineno)d %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    envs, policy = VectorEnv(32), Policy(12)
    optimizer, actions = SGDOptimizer(policy), [0.0] * 32
    step, other, logging_s = 0, 0.0, 0.0
    deadline = time.monotonic() + seconds
    print("ready", flush=True)
    while time.monotonic() < deadline:
        begin = time.thread_time()
        actions = train_step(envs, policy, optimizer, actions)
        step += 1
        middle = time.thread_time()
        other += middle - begin
        while logging_s < other * share / (1 - share):
            before = time.thread_time()
            log_step(step, actions)
            logging_s += time.thread_time() - before


if __name__ == "__main__":
    main()
