"""The program sees CUDA, torch sees the truth."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import MPS_FAITHFUL, child, in_every_order
from torch import nn
from torch._subclasses import FakeTensorMode

from .seeing import as_code_of

on_mps = child(MPS_FAITHFUL)
NATIVE = MPS_FAITHFUL.with_settings(identity="native")


def _ask(x: torch.Tensor) -> tuple[str, bool, bool]:
    return str(x.device), x.is_cuda, x.is_mps


@on_mps
def test_a_tensor() -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    assert _ask(x) == ("cuda:0", True, False)
    assert x.get_device() == 0
    assert x.type() == "torch.cuda.FloatTensor"
    assert repr(x.detach()) == "tensor([1., 1.], device='cuda:0')"


@on_mps
def test_a_device_by_its_number() -> None:
    """On CUDA a number is a GPU's; torch itself goes on to say what is there."""
    assert torch.device(0) == torch.device("cuda", 0)
    assert (str(torch.device(1)), type(torch.device(0))) == ("cuda:1", torch.device)
    assert as_code_of(lambda: torch.device(0), "torch.anything")().type == "mps"
    assert str(torch.device("mps", 0)) == "mps:0"
    with pytest.raises(RuntimeError):
        torch.device(-1)
    assert str(torch.ones(2, device=torch.device(0)).device) == "cuda:0"


@on_mps
def test_a_parameter() -> None:
    assert _ask(nn.Linear(2, 2).cuda().weight) == ("cuda:0", True, False)


@on_mps
def test_results() -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    assert str((x * 2).device) == "cuda:0"
    assert str(x.sum().device) == "cuda:0"


@on_mps
def test_a_storage() -> None:
    storage = torch.ones(2, device="cuda").untyped_storage()
    assert str(storage.device) == "cuda:0"
    assert storage.is_cuda


@on_mps
def test_cpu_tensors_report_the_cpu() -> None:
    assert str(torch.ones(1).device) == "cpu"
    assert str(torch.get_default_device()) == "cpu"


@on_mps
def test_code_of_torch_sees_the_truth() -> None:
    assert as_code_of(_ask, "torch.some.module")(torch.ones(2, device="cuda")) == ("mps:0", False, True)


@on_mps
def test_code_of_others_sees_cuda() -> None:
    assert as_code_of(_ask, "torchvision.models")(torch.ones(2, device="cuda")) == ("cuda:0", True, False)


@on_mps
def test_a_device_equals_the_one_that_was_asked_for() -> None:
    assert torch.ones(2, device="cuda").device == torch.device("cuda:0")


@on_mps
def test_a_device_can_be_asked_for_again() -> None:
    assert torch.zeros(2, device=torch.ones(2, device="cuda").device).is_cuda


@child(NATIVE)
def test_native() -> None:
    x = torch.ones(2, device="cuda")
    assert _ask(x) == ("mps:0", False, True)
    assert repr(x) == "tensor([1., 1.], device='mps:0')"


@child(NATIVE)
def test_native_leaves_the_attributes_alone() -> None:
    assert not {"device", "is_cuda"} & set(vars(torch.Tensor))


@on_mps
def test_other_attributes_are_unchanged() -> None:
    assert not {"shape", "dtype", "grad", "ndim", "data"} & set(vars(torch.Tensor))


def _branching(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(2, device=x.device) + x
    return y * 2 if x.is_cuda or x.device.type != "cpu" else y


@on_mps
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(backend: str) -> None:
    assert torch.compile(_branching, backend=backend)(torch.ones(2, device="cuda")).tolist() == [2, 2]


def _scripted(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(2, device=x.device) + x


@on_mps
def test_script() -> None:
    made = torch.jit.script(_scripted)(torch.ones(2, device="cuda"))
    assert made.tolist() == [1, 1]
    assert str(made.device) == "cuda:0"


@on_mps
def test_trace() -> None:
    x = torch.ones(2, device="cuda")
    assert torch.jit.trace(lambda t: t * 2, x)(x).tolist() == [2, 2]


def _by_type(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.device.type == "cuda" else x * 3


def _by_flag(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.is_cuda and not x.is_mps else x * 3


def _by_device(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(2, device=x.device) + x if x.device == torch.device("cuda:0") else x * 5


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x.to(self.inner.weight.device)) if self.inner.weight.is_cuda else x * 9


#: Made in the child.
BRANCHES: dict[str, Callable[[], Callable[[torch.Tensor], torch.Tensor]]] = {
    "type": lambda: _by_type,
    "flag": lambda: _by_flag,
    "device": lambda: _by_device,
    "parameter": lambda: _Net().cuda(),
}


@child(*in_every_order(MPS_FAITHFUL, rarely=True))
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("branch", BRANCHES)
def test_compiled_code_sees_what_the_program_sees(branch: str, backend: str) -> None:
    """torch.compile folds the device into the graph: compiled and not, the same branch is taken."""
    x, function = torch.ones(2, device="cuda"), BRANCHES[branch]()
    assert torch.equal(function(x), torch.compile(function, backend=backend, fullgraph=True)(x))


@child(*in_every_order(MPS_FAITHFUL))
def test_fake_tensors() -> None:
    x = torch.ones(2, device="cuda")
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        assert str(fake.device) == "cuda:0"
        assert str((fake + 1).device) == "cuda:0"
        assert fake.is_cuda


class _Logged(torch.Tensor):
    seen: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(getattr(func, "__name__", "?"))
        return super().__torch_function__(func, types, args, kwargs)


@on_mps
def test_torch_functions_of_subclasses() -> None:
    x = torch.ones(2, device="cuda").as_subclass(_Logged)
    _Logged.seen.clear()
    assert str(x.device) == "cuda:0"
    assert x.is_cuda
    assert "__get__" in _Logged.seen


@on_mps
def test_checkpoints_are_cudas() -> None:
    file = io.BytesIO()
    torch.save({"w": torch.arange(3.0, device="cuda")}, file)
    with zipfile.ZipFile(file) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
        assert b"cuda:0" in archive.read(name)


@on_mps
def test_checkpoints_are_loaded_where_they_were() -> None:
    file = io.BytesIO()
    torch.save(torch.arange(3.0, device="cuda"), file)
    file.seek(0)
    back = torch.load(file)
    assert str(back.device) == "cuda:0"
    assert back.tolist() == [0, 1, 2]
    file.seek(0)
    assert str(torch.load(file, map_location="cpu").device) == "cpu"


def _has_mps() -> tuple[bool, bool]:
    return torch.backends.mps.is_available(), torch.backends.mps.is_built()


@on_mps
def test_libraries_find_cuda_and_not_mps() -> None:
    assert torch.cuda.is_available()
    assert _has_mps() == (False, False)
    assert as_code_of(_has_mps, "torch.inner")() == (True, True)


@child(NATIVE)
def test_libraries_find_both_where_the_program_sees_the_device_as_it_is() -> None:
    assert torch.cuda.is_available()
    assert _has_mps() == (True, True)
