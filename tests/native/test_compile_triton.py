"""``--compile triton``: inductor's Triton code on the virtual GPU."""

from __future__ import annotations

import copy
import importlib.util
import json
import math
from pathlib import Path
from unittest import mock

import pytest
import torch
from harness import STOCK, VIRTUAL, child
from harness.processes import python
from torch import nn

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
on_triton = child(VIRTUAL.with_settings(compile="triton"), seconds=300)


def _make(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(3)).cuda()


@needs_triton
@on_triton
def test_triton_code_computes_as_eager() -> None:
    from torch._inductor.utils import run_and_get_code

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.sin() * 2 + 1, -1).sum(0)

    x = _make(33, 65)
    made, codes = run_and_get_code(torch.compile(function), x)
    assert any("@triton.jit" in code for code in codes)
    torch.testing.assert_close(made, function(x))


@needs_triton
@on_triton
def test_a_compiled_optimizer_trains_as_eager() -> None:
    """Its kernels are branches that end by a store, and yield nothing."""
    x, models = _make(16, 8), [nn.Linear(8, 8).cuda()]
    models.append(copy.deepcopy(models[0]))
    for model, is_compiled in zip(models, (True, False), strict=True):
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        step = torch.compile(optimizer.step) if is_compiled else optimizer.step
        for _ in range(3):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            step()
    torch.testing.assert_close(models[0].weight, models[1].weight)


@needs_triton
@on_triton
def test_cudagraph_trees_replay_triton_code() -> None:
    from torch._dynamo.utils import counters

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() @ x).relu() + 1

    compiled = torch.compile(function, mode="reduce-overhead")
    for seed in range(4):
        x = _make(16, 16) + seed
        torch.testing.assert_close(compiled(x).clone(), function(x), rtol=1e-4, atol=1e-4)
    assert counters["inductor"]["cudagraph_skips"] == 0


@needs_triton
@on_triton
def test_a_kernel_of_the_program_is_part_of_the_graph() -> None:
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def double(source, result, count, size: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * size + tl.arange(0, size)
        tl.store(result + at, 2 * tl.load(source + at, mask=at < count), mask=at < count)

    def function(x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 64),)](x.sin(), result, x.numel(), size=64)
        return result.cos()

    x = _make(100)
    made = torch.compile(function, fullgraph=True)(x)
    torch.testing.assert_close(made, (2 * x.sin()).cos())


@needs_triton
@on_triton
def test_python_launches_kernels_where_cpp_would() -> None:
    """``cpp_wrapper`` is code for NVIDIA's driver."""
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    x = _make(100)
    with config.patch(cpp_wrapper=True):
        made, codes = run_and_get_code(torch.compile(lambda x: x.sin() + 1), x)
    torch.testing.assert_close(made, x.sin() + 1)
    assert not any("cuModule" in code for code in codes)


@child(STOCK.when("after"))
@pytest.mark.native
def test_without_triton_the_setting_is_refused() -> None:
    import torchdevice_cuda
    from torchdevice_cuda.drivers.unavailable import DriverUnavailable

    find = importlib.util.find_spec
    with (
        mock.patch("importlib.util.find_spec", lambda name, *args: None if name == "triton" else find(name, *args)),
        pytest.raises(DriverUnavailable, match=r"^--compile=triton needs the package triton \(triton is not installed"),
    ):
        torchdevice_cuda.activate(driver="virtual", compile="triton")
    assert not torch.cuda.is_available()


_ACTIVATE = "import torchdevice_cuda; torchdevice_cuda.activate(driver='virtual', compile='triton')\n"
_PROGRAM = """
import json, os, sys, torch
from unittest import mock
from torch._dynamo.utils import counters
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.compile_worker.subproc_pool import SubprocPool
from torchdevice_cuda.triton.compiler import build

if os.environ["TORCHINDUCTOR_COMPILE_THREADS"] != "1":
    AsyncCompile.wait_pool_ready()
with (
    mock.patch.object(SubprocPool, "submit", autospec=True, side_effect=SubprocPool.submit) as submit,
    mock.patch.object(build, "_compile", side_effect=build._compile) as compile_for_host,
):
    shift = float(os.environ["SHIFT"])
    made = torch.compile(lambda x: x.sin() + shift)(torch.ones(9, device="cuda")).sum().item()
assert "torchdevice_cuda.triton.interpreting" not in sys.modules
found = counters["inductor"]
print(json.dumps([made, found["fxgraph_cache_hit"], submit.call_count, compile_for_host.call_count]))
"""
_LAUNCH = ("-m", "torchdevice_cuda", "--driver", "virtual", "--compile", "triton", "-c", _PROGRAM)


def _compile_sine(folder: Path, *command: str, threads: int = 1) -> tuple[int, ...]:
    """Compile in a process with caches of its own; return cache hits, tasks of workers, and its runs of a compiler."""
    shift = folder.stat().st_ino % 10**6 / 10**6  # our own cache holds the kernels of other runs
    environment = {
        "SHIFT": str(shift),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": str(threads),
    }
    made, *counts = json.loads(python(*command, environment=environment, timeout=300).out.splitlines()[-1])
    assert made == pytest.approx(9 * (math.sin(1) + shift), rel=1e-5)
    return tuple(counts)


@needs_triton
@pytest.mark.native
@pytest.mark.slow
@pytest.mark.parametrize("is_launched", [True, False])
def test_workers_compile_and_a_second_process_finds_it(tmp_path: Path, is_launched: bool) -> None:
    """Inductor starts workers with a path of its own. They know the GPU, and compile for the host, too."""
    command = _LAUNCH if is_launched else ("-c", _ACTIVATE + _PROGRAM)
    assert _compile_sine(tmp_path, *command, threads=2) == (0, 1, 0)
    assert _compile_sine(tmp_path, *_LAUNCH) == (1, 0, 0)
