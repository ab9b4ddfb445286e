# SPDX-License-Identifier: GPL-2.0-or-later
"""The whole step captured in a CUDA graph and replayed."""
import gate


def make(device):
    import torch  # pylint: disable=C0415

    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(1024, 64, device=device), torch.randn(1024, 1, device=device)
    batches = torch.randn(8, 1024, 64, device=device)

    def whole_step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    # As PyTorch's documentation of torch.cuda.graph() asks: some steps on another stream before the capture.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            whole_step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = whole_step()
    n_steps = 0

    def train_step():
        nonlocal n_steps
        x.copy_(batches[n_steps % 8])
        n_steps += 1
        graph.replay()
        return loss.item()  # the wait

    return train_step, train_step


if __name__ == "__main__":
    gate.main(make, only_cuda=True)
