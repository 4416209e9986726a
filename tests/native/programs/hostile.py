"""Trains, and then does what it is told; what fails is printed. For machines that lack something."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

import torch
import torch.multiprocessing as mp


def train() -> None:
    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4, device="cuda")).sum().backward()
        optimizer.step()
    print("trained", flush=True)


def receive(pipe: Connection) -> None:
    pipe.send(pipe.recv().sum().item())


def sends() -> None:
    """A tensor to another process; by a pipe, since Python's queues have semaphores in shared memory."""
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=receive, args=(there,))
    process.start()
    tensor = torch.ones(1000, device="cuda")
    here.send(tensor)
    print("sent", here.recv())
    process.join()


def compiles(comment: str = "") -> None:
    source = f'// {comment}\nextern "C" __global__ void add(float* x) {{ x[threadIdx.x] += 1; }}'
    kernel = torch.cuda._compile_kernel(source, "add")
    x = torch.zeros(4, device="cuda")
    kernel((1, 1, 1), (4, 1, 1), (x,))
    print(x.tolist())


def extends() -> None:
    from torch.utils.cpp_extension import load_inline

    source = "#include <torch/extension.h>\n__global__ void k() {}\nvoid f() { k<<<1, 1>>>(); }\n"
    load_inline("hostile_extension", cpp_sources="void f();", cuda_sources=source, functions=["f"])


def inductor() -> None:
    print(torch.compile(lambda x: (x * 2).sin())(torch.ones(4, device="cuda")))


if __name__ == "__main__":
    train()
    for name in sys.argv[1:2]:
        try:
            globals()[name](*sys.argv[2:])
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
