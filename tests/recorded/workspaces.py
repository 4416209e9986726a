"""What calls and steps leave allocated beside their tensors, and the most memory that recurrent networks take.

A case's value is in bytes: cuBLAS's workspaces, or the peak of a forward and backward pass.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from torchdevice_cuda._compat import blas_lt_has_own_workspace

RECORD = "workspaces-h200.json"
#: A workspace of an H200.
BLAS = 32 << 20
OPTIONS = {"virtual": ("--gpu", "h200", "--rehearse")}
TYPES = ("float32", "bfloat16", "float64", "complex64")
Call = Callable[..., Any]
#: Calls by name, with the shapes of their tensors.
OF_TYPES: dict[str, tuple[Call, tuple[tuple[int, ...], ...]]] = {
    "mm": (torch.mm, ((256, 32), (32, 512))),
    "mm, nothing to add": (torch.mm, ((256, 0), (0, 512))),
    "addmm, a row": (torch.addmm, ((512,), (256, 32), (32, 512))),
    "addmm, a matrix": (torch.addmm, ((256, 512), (256, 32), (32, 512))),
    "linear": (functional.linear, ((256, 32), (512, 32), (512,))),
    "linear, no bias": (functional.linear, ((256, 32), (512, 32))),
    "linear, three dimensions": (functional.linear, ((16, 16, 32), (512, 32), (512,))),
    "bmm": (torch.bmm, ((4, 64, 32), (4, 32, 512))),
    "baddbmm": (torch.baddbmm, ((4, 64, 512), (4, 64, 32), (4, 32, 512))),
    "addbmm": (torch.addbmm, ((64, 512), (4, 64, 32), (4, 32, 512))),
    "mv": (torch.mv, ((512, 256), (256,))),
    "dot": (torch.dot, ((65536,), (65536,))),
    "outer": (torch.outer, ((512,), (256,))),
    "addr": (torch.addr, ((512, 256), (512,), (256,))),
}
OTHERS: dict[str, tuple[Call, tuple[tuple[int, ...], ...]]] = {
    "addmm, beta 0": (partial(torch.addmm, beta=0), ((512,), (256, 32), (32, 512))),
    "addmm, beta 2": (partial(torch.addmm, beta=2), ((512,), (256, 32), (32, 512))),
    "addmm, alpha 2": (partial(torch.addmm, alpha=2), ((512,), (256, 32), (32, 512))),
    "addmm, one column": (torch.addmm, ((1,), (65536, 32), (32, 1))),
    "addmm, a sum of one": (torch.addmm, ((512,), (256, 1), (1, 512))),
    "linear, one row": (functional.linear, ((1, 256), (512, 256), (512,))),
    "matmul, broadcast": (torch.matmul, ((4, 64, 32), (32, 512))),
    "einsum": (partial(torch.einsum, "bij,bjk->bik"), ((4, 64, 32), (4, 32, 512))),
    "bilinear": (functional.bilinear, ((512, 32), (512, 64), (16, 32, 64))),
    "cdist": (torch.cdist, ((256, 64), (256, 64))),
    "cdist, few rows": (torch.cdist, ((20, 1024), (20, 1024))),
    "solve": (torch.linalg.solve, ((256, 256), (256, 64))),
    "inv": (torch.linalg.inv, ((256, 256),)),
    "cholesky_ex": (torch.linalg.cholesky_ex, ((256, 256),)),
    "qr": (torch.linalg.qr, ((256, 256),)),
    "matrix_exp": (torch.linalg.matrix_exp, ((256, 256),)),
    "conv2d": (functional.conv2d, ((8, 3, 64, 64), (4, 3, 3, 3))),
    "layer_norm": (lambda x: functional.layer_norm(x, (256,)), ((256, 256),)),
    "sum": (torch.sum, ((512, 256),)),
}
NETWORKS = ("LSTM", "GRU", "RNN")
#: Steps, batch, inputs, hidden, layers, both ways, dropout.
SIZES = (
    (100, 64, 512, 512, 2, 0, 0),
    (50, 32, 256, 256, 2, 0, 0),
    (60, 48, 384, 256, 1, 1, 0),
    (80, 64, 256, 512, 3, 0, 0),
)


def reset() -> None:
    """Free the workspaces of the cases before."""
    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


def count_left(call: Callable[[], object], before: int) -> int:
    call()
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated() - before


def call_once(function: Call, shapes: tuple[tuple[int, ...], ...], dtype: str) -> int:
    tensors = [torch.randn(shape, device="cuda").to(getattr(torch, dtype)) for shape in shapes]
    reset()
    return count_left(lambda: function(*tensors) is None, torch.cuda.memory_allocated())


def train(module: Callable[[], torch.nn.Module], shape: tuple[int, ...]) -> int:
    model, x = module().cuda(), torch.randn(shape, device="cuda")
    reset()
    before = torch.cuda.memory_allocated()

    def step() -> None:
        model(x).sum().backward()
        model.zero_grad()

    return count_left(step, before)


def use_streams() -> list[int]:
    """Multiply on a stream, again, on another stream, on other threads one after the other and together, in a graph."""
    x, y = torch.randn(256, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    reset()
    before = torch.cuda.memory_allocated()
    found = [count_left(lambda: torch.mm(x, y) is None, before) for _ in range(2)]

    def beside() -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.mm(x, y)

    found.append(count_left(beside, before))

    def on_threads(count: int) -> None:
        all_here = threading.Barrier(count)

        def run() -> None:
            torch.mm(x, y)
            all_here.wait()

        threads = [threading.Thread(target=run) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found += [count_left(partial(on_threads, count), before) for count in (1, 1, 3)]
    torch._C._cuda_clearCublasWorkspaces()
    return [*found, torch.cuda.memory_allocated() - before]


def train_network(kind: str, dtype: str, sizes: tuple[int, ...], autocast: bool) -> int:
    """Return the peak of a forward and backward pass."""
    steps, batch, inputs, hidden, layers, both, dropout = sizes
    network = getattr(torch.nn, kind)(inputs, hidden, layers, bidirectional=bool(both), dropout=dropout / 10)
    network = network.cuda().to(getattr(torch, dtype))
    x = torch.randn(steps, batch, inputs, device="cuda").to(getattr(torch, dtype)).requires_grad_()
    reset()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        y, _ = network(x)
    y.float().sum().backward()
    return torch.cuda.max_memory_allocated() - before


def list_cases() -> dict[str, Callable[[], Any]]:
    cases: dict[str, Callable[[], Any]] = {}
    for name, (function, shapes) in OF_TYPES.items():
        for dtype in TYPES:
            cases[f"left by {name}, {dtype}"] = partial(call_once, function, shapes, dtype)
    for name, (function, shapes) in OTHERS.items():
        cases[f"left by {name}"] = partial(call_once, function, shapes, "float32")
    cases["left by a step of linear"] = partial(train, lambda: torch.nn.Linear(256, 512), (64, 256))
    cases["left by a step of linear, no bias"] = partial(train, lambda: torch.nn.Linear(256, 512, False), (64, 256))
    cases["left by a step of conv2d"] = partial(train, lambda: torch.nn.Conv2d(3, 8, 3), (8, 3, 64, 64))
    cases["left on streams and threads"] = use_streams
    for kind in NETWORKS:
        for sizes in SIZES:
            shape = "x".join(map(str, sizes))
            cases[f"peak of {kind} {shape} float32"] = partial(train_network, kind, "float32", sizes, False)
            cases[f"peak of {kind} {shape} autocast"] = partial(train_network, kind, "float32", sizes, True)
    return cases


def adapt(answers: dict[str, Any], driver: str) -> dict[str, Any]:
    """Leave out the workspaces of cuBLASLt where it shares cuBLAS's: the record is of a release that has both."""
    if driver == "cuda" or blas_lt_has_own_workspace(torch.__version__):
        return answers

    def round_down(value: Any) -> Any:
        return [round_down(each) for each in value] if isinstance(value, list) else value // BLAS * BLAS

    return {name: value if name.startswith("peak") else round_down(value) for name, value in answers.items()}


#: cuDNN's own workspaces vary with the algorithm that it chooses, most for plain networks.
SHARE, SHARE_OF_PLAIN = 0.1, 0.2


def find_difference(there: Any, here: Any, case: Any) -> str | None:
    """Return how two answers differ; peaks, by more than a share."""
    if case.name.startswith("peak"):
        share = SHARE_OF_PLAIN if " RNN " in case.name else SHARE
        return None if abs(here / there - 1) <= share else f"{there} there, {here} here: {here / there - 1:+.1%}"
    return None if there == here else f"{there} there, {here} here"
