# SPDX-License-Identifier: GPL-2.0-or-later
"""torch.compile: kernels that Triton generated, launched through the driver."""
import gate


def make(device):
    import torch  # pylint: disable=C0415

    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 1)
    ).to(device)
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(1024, 64, device=device), torch.randn(1024, 1, device=device)

    def train_step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(compiled(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()  # the wait

    return train_step, train_step


if __name__ == "__main__":
    gate.main(make, need_compiler=True, only_cuda=True)
