"""NumPy is optional: all but numba's kernels and Triton's interpreter work without it; those say what is missing."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from harness import Finished, clean_environment, python
from harness.processes import ROOT, TESTS

PACKAGE = ROOT / "torchdevice_cuda"
#: Libraries whose own kernels NumPy computes.
TRITON = ("arithmetic", "checking", "formats", "interpreting", "language", "libdevice", "sanitizing")
NEEDING = {"foreign/numba.py", "sanitizer/canary.py", *(f"triton/{name}.py" for name in TRITON)}
EMULATED = {"TORCHDEVICE_EMULATE_MPS": "1", "TORCHDEVICE_EMULATE_MPS_LACKS": "heaviside"}
MPS = [pytest.mark.native, pytest.mark.mps]
DRIVERS = [
    "cpu",
    pytest.param("virtual", marks=pytest.mark.native),
    pytest.param("mps", marks=MPS),
]


def ours(*words: str | Path, **environment: str) -> Finished:
    """Run the command line where NumPy is not installed."""
    path = os.pathsep.join([str(TESTS / "without_numpy"), clean_environment()["PYTHONPATH"]])
    return python("-m", "torchdevice_cuda", *words, environment={**environment, "PYTHONPATH": path}, check=False)


def test_numpy_is_hidden() -> None:
    done = ours("--driver", "cpu", "-c", "import torch\ntry: import numpy\nexcept ImportError as error: print(error)")
    assert "No module named 'numpy'" in done.out, done


def test_modules_that_import_numpy() -> None:
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if any(name.partition(".")[0] == "numpy" for name in names):
                found.add(file.relative_to(PACKAGE).as_posix())
    assert found == NEEDING


@pytest.mark.parametrize(
    "driver",
    [pytest.param("cpu", marks=pytest.mark.slow), DRIVERS[1], pytest.param("mps", marks=[*MPS, pytest.mark.slow])],
)
def test_inductor_is_imported(driver: str) -> None:
    code = "import torch, torch._inductor.compile_fx, torch._inductor.lowering as l; print(len(l.lowerings) > 100)"
    assert ours("--driver", driver, "-c", code, **EMULATED).out == "True\n"


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
def test_functions_are_compiled(driver: str) -> None:
    code = (
        "import torch; f = lambda x: (torch.relu(x) * 2).sum(-1)\n"
        "x = torch.randn(4, 8, device='cuda', requires_grad=True); y = torch.compile(f)(x); y.sum().backward()\n"
        "print(torch.allclose(y, f(x)), x.grad.shape)"
    )
    done = ours("--driver", driver, "-c", code, **EMULATED)
    assert done.out == "True torch.Size([4, 8])\n", done


@pytest.mark.mps
@pytest.mark.native
def test_mlx_computes() -> None:
    pytest.importorskip("mlx")
    code = (
        "import torch; x = torch.tensor([[-1.0, 0, 2]], device='cuda')\n"
        "for t in (x, x.T, x.bfloat16(), x[:, :0], x[0, 0]): print(torch.heaviside(t, t + 3).tolist())"
    )
    done = ours("--driver", "mps", "--mlx", "always", "--report", "-", "-c", code, **EMULATED)
    values = "[[0.0, 3.0, 1.0]]\n[[0.0], [3.0], [1.0]]\n[[0.0, 3.0, 1.0]]\n[[]]\n0.0\n"
    assert done.out.startswith(values), done
    report = done.out + done.err
    assert "aten::heaviside  MLX" in report and "MLX could not compute it" not in report, done


@pytest.mark.native
def test_reports_and_profiles(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\nfrom torch.profiler import ProfilerActivity as A, profile\n"
        "with profile(activities=[A.CPU, A.CUDA], with_stack=True, profile_memory=True) as found:\n"
        "    x = torch.randn(8, 8, device='cuda'); (x @ x).sum().item()\n"
        "print(any(event.key == 'aten::mm' for event in found.key_averages()))\n"
        "torch.cuda.memory._record_memory_history(); y = x * 2; print(len(torch.cuda.memory._snapshot()['segments']))\n"
    )
    page = tmp_path / "page.html"
    done = ours("--driver", "virtual", "--report", page, program)
    assert done.out.split() == ["True", "1"], done
    assert "program.py:4" in page.read_text()


@pytest.mark.native
@pytest.mark.slow
def test_the_doctor_finds_no_fault(tmp_path: Path) -> None:
    done = ours("--driver", "virtual", "--doctor", "identity", tmp_path / "found.json")
    assert done.status == 0 and "0 failed" in done.out, done


def test_interpreted_triton_kernels_say_what_they_need(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\ndef one(x, N: tl.constexpr):\n    tl.store(x + tl.arange(0, N), 1.0)\n"
        "x = torch.zeros(4, device='cuda')\none[(1,)](x, 4)\nprint(x.tolist())\n"
    )
    done = ours("--driver", "cpu", "--triton", "interpreted", program)
    assert done.err.splitlines()[-1].startswith("RuntimeError: the Triton kernel one needs NumPy here"), done
    assert done.err.endswith("pip install numpy\n")
    assert ours("--driver", "cpu", program).out == "[1.0, 1.0, 1.0, 1.0]\n"
