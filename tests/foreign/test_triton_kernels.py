"""Triton's kernels without a GPU: programs that run on an NVIDIA GPU as they are, compared with torch and with one."""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import CPU, STORED, VIRTUAL, ChildConfig, python
from harness.places import must_be_ready
from recorded import read_record, triton

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="not installed: triton (the extra 'clients')"
    ),
]

PROGRAMS = Path(__file__).parent / "programs"
RECORD = read_record(triton.RECORD)
RECORDED = RECORD["numbers"]
PLACES = {"virtual": VIRTUAL, "cpu": CPU, **dict(zip(("mps shared", "mps private"), STORED, strict=True))}


@functools.cache
def told(program: str, driver: str, gpu: str | None = None, *arguments: str) -> dict[str, Any]:
    """Run a program on a driver and return its output."""
    place: ChildConfig = PLACES[driver]
    must_be_ready(place)
    options = [part for name, value in place.settings.items() for part in (f"--{name}", value)]
    options += ["--gpu", gpu] if gpu else []
    line = ("-m", "torchdevice_cuda", *options, PROGRAMS / program, *arguments)
    done = python(*line, environment=place.full_environment(), timeout=600)
    return json.loads(done.out.strip().splitlines()[-1])


@pytest.mark.parametrize("driver", PLACES)
def test_kernels_agree_with_torch(driver: str) -> None:
    # A tensor with addresses of others in it: an Apple GPU's are its own, which the host cannot use.
    found = told("triton_kernels.py", driver, *((None, "grouped_gemm") if driver.startswith("mps") else ("h200",)))
    assert len(found) >= 12
    assert {name: off for name, off in found.items() if not off <= 1} == {}


@pytest.mark.parametrize("driver", ["virtual", "cpu"])
@pytest.mark.parametrize("name", RECORDED)
def test_numbers_are_the_gpus(name: str, driver: str) -> None:
    ours, theirs = told("triton_numbers.py", driver, "h200")[name], RECORDED[name]
    assert triton.are_close(name, theirs, ours)


MANNERS = {
    "target": ["cuda", 90, 32],
    "device": [0, "cuda:0"],
    "kernel": ["CompiledKernel", True],
    "assembly": ["source", "ttir", "ttgir", "llir", "ptx", "cubin"],
    "by name": [3, 3, 3, 3, 2],
    "nested": [3, 3, 3, 3],
    "tuned": [64, 1, 1],
    "hooks": [4],
    "graph": [6] * 8,
    "bench": "float",
    "no power of two": "CompilationError: arange's range must be a power of 2",
    "static assert": "CompileTimeAssertionFailure: b is not three",
    "missing": "TypeError: dynamic_func() missing 1 required positional argument: 'n'",
    "unknown": "KeyError: 'Keyword argument Q was specified but unrecognised'",
    "grid": "RuntimeError: Triton Error [CUDA]: invalid argument",
    "outside": "RuntimeError: Cannot call @triton.jit'd outside of the scope of a kernel",
    "has_triton": True,
}


@pytest.mark.parametrize("name", MANNERS)
def test_launches_are_as_on_a_gpu(name: str) -> None:
    assert told("triton_manners.py", "virtual", "h200")[name] == MANNERS[name]


@pytest.mark.parametrize("kernel", ["address", "assertion"])
def test_a_kernel_that_ends_its_context_loses_the_device_as_on_a_gpu(kernel: str) -> None:
    assert told("triton_losing.py", "virtual", "h200", kernel) == RECORD[f"losing {kernel}"]


def test_a_tensor_of_the_cpu_is_refused() -> None:
    found = told("triton_manners.py", "virtual", "h200")["cpu tensor"]
    assert found.startswith("ValueError: Pointer argument") and found.endswith(
        "cannot be accessed from Triton (cpu tensor?)"
    )


def test_assembly_in_a_kernel_is_refused_by_name() -> None:
    found = told("triton_manners.py", "virtual", "h200")["assembly inline"]
    assert found.startswith(
        "NotImplementedError: the Triton kernel sixteen_bits_of_assembly cannot run here: the PTX instruction vadd."
    )


@pytest.mark.parametrize("driver", ["virtual", "cpu"])
def test_kernels_in_compiled_graphs(driver: str) -> None:
    place = PLACES[driver]
    must_be_ready(place)
    done = python("-m", "torchdevice_cuda", "--driver", driver, PROGRAMS / "triton_compiled.py", timeout=900)
    assert done.out.split()[:8] == "f dynamic tuned mutates triton_op backends autograd plain".split()


AFTERWARDS = """
import torch, triton, triton.language as tl
from triton.runtime import jit, interpreter
import torchdevice_cuda
kind = triton.backends.backends["nvidia"].driver
before = kind.__init__, vars(jit.JITFunction)["__call__"], tl.load, triton.runtime.autotuner.Autotuner.run
torchdevice_cuda.activate(driver="cpu")
@triton.jit
def one(o): tl.store(o, 1.0)
o = torch.zeros(1, device="cuda")
one[(1,)](o)
assert o.item() == 1, o
assert tl.load is before[2]  # between launches the language is the compiler's
torchdevice_cuda.deactivate()
assert (kind.__init__, vars(jit.JITFunction)["__call__"], tl.load, triton.runtime.autotuner.Autotuner.run) == before
try:
    triton.runtime.driver.active
except RuntimeError as error:
    print(error)
"""


def test_deactivation_leaves_triton_as_it_was(tmp_path: Path) -> None:
    """Triton was imported before: its own functions are the compiler's, and run all the same."""
    program = tmp_path / "afterwards.py"
    program.write_text(AFTERWARDS)
    assert "0 active drivers" in python(program, timeout=300).out


def test_triton_is_not_imported_for_a_program_that_does_not_use_it() -> None:
    code = "import sys, torch; torch.ones(2, device='cuda').sum().item(); print('triton' in sys.modules)"
    assert python("-m", "torchdevice_cuda", "--driver", "cpu", "-c", code, timeout=300).out.strip() == "False"
    assert "triton" not in sys.modules
