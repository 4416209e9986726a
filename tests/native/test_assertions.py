"""Kernels that find something wrong: the device is lost, as an H200's was (tests/data/assertions-h200.json)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from harness import VIRTUAL, child

from .losing import CALLS, CUDA, after, c, call, in_fork, ones, raised

pytestmark = child(VIRTUAL.but(gpu="h200", devices=2))

#: `calls`: what each raised, at once, in the wait behind it and in the next operator, and the first line on standard
#: error. `after`: what each raised on a device that was lost.
RECORD = json.loads((Path(__file__).parents[1] / "data" / "assertions-h200.json").read_text(encoding="utf-8"))
ACCELERATOR = "AcceleratorError"


def _told(line: str) -> tuple[str, str]:
    """The kernel, and what it asserts."""
    kernel, _, rest = line.partition(": block:")
    return kernel, rest.partition(" Assertion ")[2]


def test_calls_lose_the_device_where_an_h200_does() -> None:
    different = {}
    for name in CALLS:
        [now, waited, later], said = in_fork(lambda name=name: call(name))
        there, line = RECORD["calls"][name]["raised"], RECORD["calls"][name]["line"]
        # A kernel is done at once here: what a GPU says a moment later inside the call is said by the wait.
        same = [now, waited, later] == there or ([now, waited, later] == ["ok", *there[1:]] and there[0] == ACCELERATOR)
        first = said.split("\n", 1)[0]
        # Which thread is first to say so is not known here.
        if not same or _told(first) != _told(line):
            different[name] = ([now, waited, later], there, first, line)
    assert different == {}


def test_what_a_lost_device_refuses() -> None:
    found, _ = in_fork(after)
    assert found == RECORD["after"]


def _scenes() -> dict[str, Callable[[], Any]]:
    def shapes() -> Any:
        """A call goes on, with results of the right shape."""
        x = ones(3, 4)
        made = [x[c(9)], x.gather(0, c(9)[None]), x.index_select(1, c(9, 9)), torch.nn.functional.embedding(c(9), x)]
        made.append(torch.nn.functional.cross_entropy(x, c(0, 1, 9)))
        return [[list(t.shape), str(t.device)] for t in made], (made[0] + 1).shape == (1, 4)

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

    return {scene.__name__: scene for scene in (shapes, words, waiting, replayed, other_device, compiled)}


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


def test_how_a_device_is_lost() -> None:
    found = {name: in_fork(scene) for name, scene in _scenes().items()}
    answers = {name: answer for name, (answer, _) in found.items()}
    sizes = [[1, 4], [1, 1], [3, 2], [1, 4], []]
    assert answers == {
        "shapes": [[[size, f"{CUDA}:0"] for size in sizes], True],
        "words": [WORDS, 710],
        "waiting": [line for line in WORDS if line not in LATE],
        "replayed": [[1.0], "ok", ACCELERATOR],
        "other_device": [[2.0, 2.0], "ok", ACCELERATOR],
        "compiled": [ACCELERATOR, ACCELERATOR],
    }
    # Whoever looks for the cause finds it: the kernel's line, and what the host knows.
    assert "torchdevice_cuda: what the kernel found: aten::index.Tensor: index 5 is out of bounds" in found["words"][1]
    assert "Assertion `index out of bounds: " in found["compiled"][1]
