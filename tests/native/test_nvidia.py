"""NVIDIA's libraries, which a CUDA build of torch brings along: nothing is asked of them where there is no GPU."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from harness import CPU, STOCK, VIRTUAL, ChildConfig, child, in_child

Observed = Callable[[ChildConfig, str], list[list[str]]]
SOURCE = Path(__file__).parent / "stubs" / "nvidia.c"


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvidia")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / name, SOURCE], check=True)
    return folder


def train() -> None:
    """A step with what reaches for libraries of CUDA's, and questions about them."""
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)).cuda()
    optimizer, scaler = torch.optim.AdamW(model.parameters(), fused=True), torch.amp.GradScaler("cuda")
    with torch.autocast("cuda"):
        loss = model(torch.randn(2, 3, 8, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    square = torch.randn(8, 8, device="cuda")
    torch.linalg.inv(square), torch.linalg.svd(square), torch.fft.fft(square), nn.LSTM(8, 8).cuda()(square)
    torch.backends.cudnn.version(), torch.backends.cuda.matmul.allow_tf32, torch.cuda.memory_summary()
    torch.backends.cuda.preferred_linalg_library("magma"), torch.backends.cuda.preferred_blas_library("cublaslt")
    torch.compile(torch.sin, backend="eager")(square)
    heads = torch.randn(1, 2, 4, 8, device="cuda", requires_grad=True)
    torch.compile(nn.functional.scaled_dot_product_attention, backend="aot_eager")(heads, heads, heads).sum().backward()
    torch.cuda.synchronize()


def observe(program: str) -> list[list[str]]:
    """Run a program; return the functions of NVIDIA's that this process called and those of its libraries it has."""
    if program == "training":
        train()
    elif program == "a step of stock torch":
        model = torch.nn.Linear(3, 3)
        model(torch.ones(2, 3)).sum().backward()
        torch.optim.AdamW(model.parameters()).step()
    else:
        ctypes.CDLL("libcuda.so.1").cuInit(0)
        ctypes.CDLL("libnvidia-ml.so.1")
    calls = Path(os.environ["NVIDIA_CALLS"])
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8")
    theirs = r"/(lib(?:cu|nv|nccl|nvidia|caffe2_nvrtc|torch_cuda)[^/\n]*\.so[^/\n]*)$"
    return [
        calls.read_text(encoding="utf-8").split() if calls.exists() else [],
        sorted(set(re.findall(theirs, mapped, re.MULTILINE))),
    ]


@pytest.fixture(scope="module")
def observed(stubs: Path) -> Observed:
    """Return a function that observes each program once, in a process that finds the stubs."""

    known: dict[str, list[list[str]]] = {}

    def observe_once(place: ChildConfig, program: str) -> list[list[str]]:
        if program not in known:
            where = place.within(LD_LIBRARY_PATH=str(stubs), NVIDIA_CALLS=str(stubs / program))
            known[program] = in_child(observe, where, program)
        return known[program]

    return observe_once


@pytest.mark.native
@pytest.mark.parametrize(
    ("program", "called", "more"),
    [("training", [], []), ("this test's", ["cuInit"], ["libcuda.so.1", "libnvidia-ml.so.1"])],
    ids=["by a program", "by this test"],
)
def test_training_asks_nothing_of_nvidias_driver(
    observed: Observed, program: str, called: list[str], more: list[str]
) -> None:
    """On the ``cpu`` driver autograd's own C++ counts GPUs once, as in stock torch: nothing compiled answers it.

    No library is loaded either but those that torch links.
    """
    calls, found = observed(VIRTUAL, program)
    assert calls == called
    _, linked = observed(STOCK, "a step of stock torch")
    assert [name for name in found if name not in linked] == more


@child(CPU, VIRTUAL)
def test_groups_have_a_nccl_that_needs_no_gpu() -> None:
    import torch.distributed as dist

    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(3, device="cuda")
    dist.all_reduce(x)
    assert x.tolist() == [1] * 3
    dist.destroy_process_group()


@child(CPU)
def test_cuda_activity_is_that_of_the_host() -> None:
    from torch.profiler import ProfilerActivity, profile

    for asked in ([ProfilerActivity.CUDA], [ProfilerActivity.CPU, ProfilerActivity.CUDA]):
        with profile(activities=asked) as profiled:
            torch.ones(3, device="cuda").add(1)
        assert "aten::add" in {event.key for event in profiled.key_averages()}


@child(VIRTUAL)
def test_cuda_activity_is_that_of_the_device() -> None:
    from torch.profiler import ProfilerActivity, profile

    for asked in ([ProfilerActivity.CUDA], [ProfilerActivity.CPU, ProfilerActivity.CUDA]):
        with profile(activities=asked) as profiled:
            torch.ones(3, device="cuda").add(1)
        assert "virtual aten::add" in {event.key for event in profiled.key_averages()}
