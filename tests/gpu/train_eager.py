# SPDX-License-Identifier: GPL-2.0-or-later
"""A small network trained step by step: many small kernels, and `.item()` in every step."""
import gate


def make(device):
    import torch  # pylint: disable=C0415

    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, y = torch.randn(1024, 64, device=device), torch.randn(1024, 1, device=device)

    def train_step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()  # the wait

    return train_step, train_step


if __name__ == "__main__":
    gate.main(make)
