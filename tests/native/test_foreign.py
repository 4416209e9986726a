"""Operators of other libraries: kernels that were compiled for CUDA are not launched on the host's memory."""

from __future__ import annotations

import importlib.util
import subprocess
import sysconfig
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import STOCK, VIRTUAL, ChildConfig, in_child

import torchdevice_cuda

SOURCE = Path(__file__).parent / "stubs" / "foreign.cpp"
CALLED = "the library's kernel for CUDA was called"
#: Nothing is activated in it, but the Apple GPU is there if it is asked for.
EMULATED = ChildConfig("emulated", order="after", environment={"TORCHDEVICE_EMULATE_MPS": "1"}, needs=("mps",))
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library, compiled for the host alone."""
    root = Path(torch.__file__).parent
    made = tmp_path_factory.mktemp("foreign") / "foreign.so"
    headers = (root / "include", root / "include/torch/csrc/api/include", sysconfig.get_path("include"))
    options = [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", *(f"-I{path}" for path in headers)]
    libraries = [f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10"]
    command = ["c++", "-std=c++20", "-O0", "-shared", "-fPIC", *options, SOURCE, "-o", made, *libraries]
    subprocess.run(command, check=True)
    return made


@pytest.fixture(scope="module")
def compiled(plain: Path) -> Path:
    """Compile a library with the symbols that a compiler for CUDA adds for GPU code."""
    made, code = plain.with_name("foreign_cuda.so"), plain.with_name("code")
    code.write_bytes(b"for a GPU")
    subprocess.run(["objcopy", f"--add-section=.nv_fatbin={code}", plain, made], check=True)
    return made


def load(path: str, how: str) -> None:
    """In the two ways in which libraries of operators are loaded."""
    if how == "load_library":
        torch.ops.load_library(path)
    else:
        spec = importlib.util.spec_from_file_location("foreign", path)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def python_kernel(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def uses(path: str, how: str, late: bool = False) -> list[str]:
    """Call the library's operators with tensors on the device."""
    if late:
        load(path, how)
        torch.library.impl("foreign::written", "CUDA")(python_kernel)
        torchdevice_cuda.activate(driver="virtual")
    else:
        x = torch.ones(3, device="cuda")  # the device is in use already
        load(path, how)
        torch.library.impl("foreign::written", "CUDA")(python_kernel)
    x = torch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    torch.library.register_autograd("foreign::twice", lambda _, grad: grad * 2)
    made = torch.ops.foreign.twice(x)
    made.sum().backward()
    first, second = torch.ops.foreign.twice([x.detach(), x.detach() + 1])
    answers: list[Any] = [made, x.grad, first, second, torch.ops.foreign.written(x.detach())]
    assert all(answer.is_cuda for answer in answers)
    with pytest.raises(NotImplementedError, match=r"Could not run 'foreign::gpu_only'.*'CUDA'"):
        torch.ops.foreign.gpu_only(x)
    return [str(answer.tolist()) for answer in answers]


EXPECTED = ["[2.0, 4.0]", "[2.0, 2.0]", "[2.0, 4.0]", "[4.0, 6.0]", "[3.0, 6.0]"]


@pytest.mark.parametrize("how", ["load_library", pytest.param("import", marks=pytest.mark.slow)])
@pytest.mark.parametrize("late", [False, True], ids=["into an active process", "before activation"])
def test_the_cpus_kernels_take_over(compiled: Path, how: str, late: bool) -> None:
    place = STOCK.when("after") if late else VIRTUAL
    assert in_child(uses, place, str(compiled), how, late) == EXPECTED


def own(path: str) -> None:
    torch.ops.load_library(path)
    for operator in (torch.ops.foreign.twice, torch.ops.foreign.gpu_only):
        with pytest.raises(RuntimeError, match=CALLED):
            operator(torch.ones(2, device="cuda"))


def test_kernels_made_of_torchs_operators_stay(plain: Path) -> None:
    """They were compiled for the host, and compute wherever their tensors are."""
    in_child(own, VIRTUAL, str(plain))


# ------------------------------------------------------------------------- an Apple GPU, whose backend lacks them all
def uses_on_mps(path: str, how: str, late: bool) -> dict[str, Any]:
    """Call the operators of a library that has kernels for the CPU and for CUDA."""
    if late:
        load(path, how)
        torchdevice_cuda.activate(driver="mps", fallback="warn")
    else:
        torchdevice_cuda.activate(driver="mps", fallback="warn")
        load(path, how)
    x = torch.tensor([1.0, 2.0], device="cuda")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = [torch.ops.foreign.twice(x), *torch.ops.foreign.twice([x, x + 1])]
    with pytest.raises(NotImplementedError):
        torch.ops.foreign.gpu_only(x)
    found = {
        "made": [(str(each.device), each.tolist()) for each in made],
        "said": [str(warning.message) for warning in said],
    }
    torchdevice_cuda.deactivate()
    found["after"] = torch._C._dispatch_has_kernel_for_dispatch_key("foreign::twice", "MPS")
    return found


@pytest.mark.mps
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("how", ["load_library", "module"])
def test_an_apple_gpu_leaves_them_to_the_cpu(plain: Path, how: str, late: bool) -> None:
    found = in_child(uses_on_mps, EMULATED, str(plain), how, late)
    why = "runs on CPU: the GPU's backend has no kernel"
    assert found == {
        "made": [["cuda:0", [2.0, 4.0]]] * 2 + [["cuda:0", [4.0, 6.0]]],
        "said": [f"foreign::twice {why}", f"foreign::twice.all {why}"],
        "after": False,
    }


def _namespaces() -> list[str]:
    import torch._dynamo
    import torch.ao.quantization
    import torch.distributed
    import torch.onnx  # noqa: F401

    from torchdevice_cuda.fallback.capabilities import of_libraries

    return of_libraries(())


def test_operators_of_torch_are_not_taken_for_a_librarys() -> None:
    assert in_child(_namespaces, STOCK.when("after")) == []
