"""A training step captured in a CUDA graph and replayed: the same numbers as step by step.

python -m torchdevice_cuda --driver virtual examples/cuda_graphs.py
"""

import torch
from torch import nn


def network() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1)).cuda()
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=False)
    loss = (model(x).squeeze(1) - x.sum(1)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main() -> None:
    torch.manual_seed(1)
    batches = [torch.randn(32, 16, device="cuda") for _ in range(12)]

    model, optimizer = network()
    eager = [step(model, optimizer, batch).item() for batch in batches]

    model, optimizer = network()
    static = batches[0].clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # the first steps are made outside: they allocate what stays
        replayed = []
        for batch in batches[:3]:
            static.copy_(batch)
            replayed.append(step(model, optimizer, static).item())
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, optimizer, static)
    for batch in batches[3:]:
        static.copy_(batch)
        graph.replay()
        replayed.append(loss.item())

    print("step by step:", " ".join(f"{value:.4f}" for value in eager))
    print("replayed:    ", " ".join(f"{value:.4f}" for value in replayed))
    assert torch.allclose(torch.tensor(eager), torch.tensor(replayed), rtol=1e-4)


if __name__ == "__main__":
    main()
