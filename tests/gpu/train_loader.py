# SPDX-License-Identifier: GPL-2.0-or-later
"""Batches from a DataLoader with worker processes, copied to the GPU in every step.

Without pinned memory: the thread that pins makes CUDA calls whenever it has time, and the steps would not be the same twice.
"""
import gate


def make(device):
    import torch  # pylint: disable=C0415

    class Samples(torch.utils.data.Dataset):
        """Made as they are asked for."""

        def __len__(self):
            return 1 << 24

        def __getitem__(self, index):
            generator = torch.Generator().manual_seed(index)
            return torch.randn(64, generator=generator), torch.randn(1, generator=generator)

    loader = torch.utils.data.DataLoader(Samples(), batch_size=64, num_workers=2)
    batches = iter(loader)
    # Wide enough that the GPU is busy with a step longer than the host with launching it: copying a batch waits as well, for
    # nothing. An H200 takes 3 ms for this one.
    width = 16384 if device.type == "cuda" else 256
    model = torch.nn.Sequential(
        torch.nn.Linear(64, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def train_step():
        x, y = (tensor.to(device) for tensor in next(batches))
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()  # the wait

    return train_step, train_step


if __name__ == "__main__":
    gate.main(make)
