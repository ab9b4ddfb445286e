# SPDX-License-Identifier: GPL-2.0-or-later
"""A PyTorch training loop on one CPU that allocates all the time. A unit is a step. Usage: torch_loop.py FILE"""
import sys

import torch

import counted


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(model.parameters())
    count = counted.Counted(sys.argv[1])
    while True:
        observed, wanted = torch.randn(64, 128), torch.randint(10, (64,))
        loss = torch.nn.functional.cross_entropy(model(observed), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count.add(1)


if __name__ == "__main__":
    main()
