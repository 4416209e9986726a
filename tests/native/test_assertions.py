"""Kernels that find something wrong: the device is lost, as an H200's was (tests/data/assertions-h200.json)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from harness import VIRTUAL, child
from recorded import assertions, find_differences
from recorded.assertions import CUDA, c, in_fork, ones, raised

pytestmark = child(VIRTUAL.with_settings(gpu="h200", devices=2))

ACCELERATOR = "AcceleratorError"


def test_calls_lose_the_device_where_an_h200_does() -> None:
    assert find_differences(assertions) == {}


def _scenes() -> dict[str, Callable[[], Any]]:
    def words() -> Any:
        try:
            ones(3)[c(5)]
            torch.cuda.synchronize()
        except RuntimeError as error:
            return str(error).splitlines(), getattr(error, "error_code", 710)
        return None

    def waiting() -> Any:
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
        try:
            ones(3)[c(5)]
        except RuntimeError as error:
            return str(error).splitlines()
        return None

    def replayed() -> Any:
        """Elements are looked at when a graph is replayed, and the error is whose waits for it."""
        x, index, graph = ones(3), c(1), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x[index]
        graph.replay()
        good = y.tolist()
        index.fill_(9)
        return good, raised(graph.replay), raised(torch.cuda.synchronize)

    def other_device() -> Any:
        """Another GPU's context is another one."""
        ones(3)[c(5)]
        y = torch.ones(2, device="cuda:1") + 1
        return y.tolist(), raised(lambda: torch.cuda.synchronize(1)), raised(lambda: torch.cuda.synchronize(0))

    def compiled() -> Any:
        def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return x[i] * 2

        found = torch.compile(f, backend="inductor")
        assert found(ones(3), c(1)).tolist() == [2.0]
        return raised(lambda: (found(ones(3), c(5)), torch.cuda.synchronize())), raised(lambda: ones(1))

    return {scene.__name__: scene for scene in (words, waiting, replayed, other_device, compiled)}


SIZES: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], list[int]]] = {
    "index": (lambda x, nine: x[nine], [1, 4]),
    "gather": (lambda x, nine: x.gather(0, nine[None]), [1, 1]),
    "index_select": (lambda x, nine: x.index_select(1, nine), [3, 1]),
    "embedding": (lambda x, nine: torch.nn.functional.embedding(nine, x), [1, 4]),
    "cross_entropy": (lambda x, nine: torch.nn.functional.cross_entropy(x[:1], nine), []),
}


def test_a_call_goes_on_with_results_of_the_right_shape() -> None:
    def made(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Any:
        y = function(ones(3, 4), c(9))
        return [list(y.shape), str(y.device)]

    for function, size in SIZES.values():
        assert in_fork(lambda function=function: made(function))[0] == [size, f"{CUDA}:0"]


LATE = [
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
]
WORDS = [
    "CUDA error: device-side assert triggered",
    "Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more "
    "information.",
    *LATE,
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
]


def test_a_failed_assertion_loses_the_device() -> None:
    found = {name: in_fork(scene) for name, scene in _scenes().items()}
    answers = {name: answer for name, (answer, _) in found.items()}
    assert answers == {
        "words": [WORDS, 710],
        "waiting": [line for line in WORDS if line not in LATE],
        "replayed": [[1.0], "ok", ACCELERATOR],
        "other_device": [[2.0, 2.0], "ok", ACCELERATOR],
        "compiled": [ACCELERATOR, ACCELERATOR],
    }
    # Whoever looks for the cause finds it: the kernel's line, and what the host knows.
    assert "torchdevice_cuda: what the kernel found: aten::index.Tensor: index 5 is out of bounds" in found["words"][1]
    assert "Assertion `index out of bounds: " in found["compiled"][1]
