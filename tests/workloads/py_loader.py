# SPDX-License-Identifier: GPL-2.0-or-later
"""A DataLoader with worker processes. Usage: py_loader.py [seconds] [workers]"""
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        total = 0
        for i in range(20000):
            total += i * index
        return torch.tensor([total % 7, index % 7])


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    torch.set_num_threads(1)
    loader = DataLoader(Samples(), batch_size=4, num_workers=workers)
    ready = False
    for batch in loader:
        if not ready:
            print("ready", flush=True)
            ready = True
        if time.monotonic() > deadline:
            break


if __name__ == "__main__":
    main()
