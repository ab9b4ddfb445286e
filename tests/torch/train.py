# SPDX-License-Identifier: GPL-2.0-or-later
"""Trainings that call CUDA as PyTorch does; without a GPU the stand-in runtime answers.

Usage: train.py NAME STEPS    waits for a byte on standard input before its first CUDA call and makes STEPS steps.
"""
import os
import sys

import torch

WIDTH, WORDS, LENGTH = 64, 500, 32


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.projection = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, WIDTH // 4).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2), -1)
        return self.projection((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.norm2(x))))


def language_model():
    return torch.nn.Sequential(torch.nn.Embedding(WORDS, WIDTH), Block(), Block(), torch.nn.Linear(WIDTH, WORDS))


def loss_of(model, words):
    return torch.nn.functional.cross_entropy(model(words).view(-1, WORDS), words.view(-1))


def log_loss(loss):
    return loss.item()  # the wait


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return torch.randint(0, WORDS, (LENGTH,), generator=torch.Generator().manual_seed(index))


def batches(name):
    """Of the loader's two processes and its thread that pins, or one batch again and again."""
    if name == "loader":
        yield from torch.utils.data.DataLoader(Sentences(), batch_size=16, num_workers=2, pin_memory=True)
    one = torch.randint(0, WORDS, (16, LENGTH))
    while True:
        yield one


def eager(name, steps):
    model = language_model().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step, batch in enumerate(batches(name)):
        if step == steps:
            return
        words = batch.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, words)
        loss.backward()
        optimizer.step()
        log_loss(loss)


def graphs(_, steps):
    model = language_model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    words = torch.randint(0, WORDS, (16, LENGTH), device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            loss_of(model, words).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = loss_of(model, words)
        loss.backward()
        optimizer.step()
    for _ in range(steps):
        graph.replay()
        log_loss(loss)


def main():
    name, steps = sys.argv[1], int(sys.argv[2])
    print("ready", flush=True)
    os.read(0, 1)
    (graphs if name == "graphs" else eager)(name, steps)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
