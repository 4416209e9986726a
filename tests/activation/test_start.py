"""Activation before torch is imported, after it, and after dynamo too; twice, and wrongly."""

from __future__ import annotations

import pickle
import shutil
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
from harness import CPU, STOCK, VIRTUAL, child, cuda_of_build, in_every_order, outcome, python
from harness.processes import ROOT

import torchdevice_cuda

ANY_ORDER = in_every_order(CPU)


# ------------------------------------------------------------------- what is imported when
@child(STOCK, alone=True)
def test_importing_the_package_imports_no_torch() -> None:
    assert "torch" not in sys.modules


@child(STOCK, alone=True)
def test_activation_before_torch_imports_no_torch() -> None:
    torchdevice_cuda.activate()
    assert torchdevice_cuda.is_active()
    assert "torch" not in sys.modules


@child(CPU, VIRTUAL, alone=True)
def test_the_translator_of_cuda_cpp_is_imported_with_the_first_kernel() -> None:
    import torch

    torch.ones(2, device="cuda")
    assert "torchdevice_cuda.cuda_cpp.translation" not in sys.modules
    torch.cuda._utils._get_nvrtc_library()
    assert "torchdevice_cuda.cuda_cpp.translation" in sys.modules


# -------------------------------------------------------------------------- names agree
@child(*ANY_ORDER)
def test_modules_are_what_sys_modules_has() -> None:
    import torch
    from torch.cuda import is_available, memory_allocated

    assert torch.cuda is sys.modules["torch.cuda"]
    assert is_available is torch.cuda.is_available
    assert is_available is sys.modules["torch.cuda"].is_available
    assert memory_allocated is torch.cuda.memory.memory_allocated


@child(*ANY_ORDER)
def test_names_say_where_they_are() -> None:
    import torch

    names = torch.cuda
    for thing in (names.is_available, names.Stream, names.amp.autocast, names.memory.MemPool, names.nvtx.mark):
        assert pickle.loads(pickle.dumps(thing)) is thing
        assert thing.__doc__, thing
        assert thing.__module__.startswith("torch.cuda"), thing
    assert names.streams.Stream is names.Stream
    assert names.Stream.__module__ == "torch.cuda.streams"


@child(*ANY_ORDER)
def test_unchanged_modules_are_torchs_own() -> None:
    import torch.cuda._memory_viz

    assert "torchdevice_cuda" not in str(torch.cuda._memory_viz.__file__)


@child(*ANY_ORDER)
@pytest.mark.parametrize("name", ["FloatTensor", "HalfTensor", "LongTensor", "BFloat16Tensor", "BoolTensor"])
def test_tensor_classes_of_cpp_survive(name: str) -> None:
    import torch

    assert type(getattr(torch.cuda, name)).__name__ == "tensortype"


@child(*ANY_ORDER)
def test_tensor_classes_of_sparse_tensors_survive() -> None:
    import torch.cuda.sparse

    assert torch.cuda.sparse.FloatTensor.__module__ == "torch.cuda.sparse"


# ------------------------------------------------------------------------------- twice
@child(CPU)
def test_a_second_activation_is_the_same() -> None:
    import torch

    stream = torch.cuda.Stream()
    torchdevice_cuda.activate()
    torchdevice_cuda.activate(driver="cpu")
    assert torch.cuda.device_count() == 1
    assert stream.query()


@child(CPU)
def test_a_second_activation_with_other_settings_is_an_error() -> None:
    import torch

    with pytest.raises(RuntimeError, match=r"(?s)already active.*devices=3"):
        torchdevice_cuda.activate(driver="cpu", devices=3)
    assert torch.cuda.device_count() == 1


# ------------------------------------------------------------------------------ wrongly
def use_a_copy(folder: str) -> None:
    """Import torch under a copy of the package that does not work; it fails, again too, until that is given up."""
    sys.path.insert(0, folder)
    del sys.modules["torchdevice_cuda"]
    import torchdevice_cuda as copy
    from torchdevice_cuda.activation import ActivationError

    assert str(copy.__file__).startswith(folder)
    copy.activate(driver="cpu")
    for _ in range(2):
        with pytest.raises(
            ActivationError, match=r"could not start with torch .*: ZeroDivisionError: broken"
        ) as raised:
            import torch
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert not copy.is_active()
    copy.deactivate()
    import torch

    assert not torch.cuda.is_available()
    assert "torchdevice_cuda" not in str(torch.cuda.__file__)
    assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)


@pytest.mark.parametrize(
    "part, name",
    [("shadow", "streams.py"), pytest.param("shadow", "random.py", marks=pytest.mark.slow), ("translate", "amp.py")],
)
def test_a_broken_part_is_never_stock_torch_by_accident(tmp_path: Path, part: str, name: str) -> None:
    package = tmp_path / "torchdevice_cuda"
    shutil.copytree(ROOT / "torchdevice_cuda", package, ignore=shutil.ignore_patterns("__pycache__"))
    broken = next((package / part).rglob(name))
    broken.write_text("raise ZeroDivisionError('broken')\n")
    outcome(use_a_copy, STOCK, str(tmp_path)).checked()


def test_a_driver_that_cannot_work_says_why(no_gpu: None) -> None:
    code = "import torchdevice_cuda; torchdevice_cuda.activate(driver='cuda'); import torch"
    done = python("-c", code, check=False)
    assert done.status == 1
    reason = "no CUDA GPU answers" if cuda_of_build() else "this torch is built without CUDA"
    assert f"driver 'cuda' was asked for, but {reason}" in done.err


def use_a_torch_of_the_future() -> None:
    import torch

    torch.__version__ = "9.9.0"
    torchdevice_cuda.activate(driver="cpu")
    assert torch.cuda.is_available()


@child(STOCK.when("after"), alone=True)
def test_a_torch_that_is_too_old_is_refused() -> None:
    import torch

    torch.__version__ = "2.5.1"
    with pytest.raises(RuntimeError, match=r"torch 2\.5\.1 is too old for .*, which needs torch 2\.6"):
        torchdevice_cuda.activate(driver="cpu")
    assert not torch.cuda.is_available()


@child(STOCK.when("after"), alone=True)
def test_the_last_torch_of_intel_macs_is_refused_with_the_reason() -> None:
    import torch

    from torchdevice_cuda.drivers.mps import macos

    torch.__version__ = "2.2.2"
    macos.is_intel_mac = lambda: True
    with pytest.raises(RuntimeError, match=r"torch 2\.2\.2 is too old for .*Intel processor, for which PyTorch ended"):
        torchdevice_cuda.activate(driver="cpu")


def test_an_unknown_torch_warns_once_and_goes_on() -> None:
    done = outcome(use_a_torch_of_the_future, STOCK)
    done.checked()
    assert done.err.count("torch 9.9.0 is outside the versions") == 1


@child(*in_every_order(CPU, VIRTUAL))
def test_cuda_names_that_torch_stores_at_import_are_ours() -> None:
    """cuDNN's modes, in a module that an object with settings stands for; and how the class of events is sent."""
    import torch

    layer = torch.nn.LSTM(3, 4).cuda()
    assert layer(torch.ones(2, 5, 3).cuda())[0].shape == (2, 5, 4)
    assert torch.backends.cudnn.rnn.get_cudnn_mode("GRU") == 3
    sent = ForkingPickler._extra_reducers[torch.cuda.Event]
    assert (sent.__module__, sent.__name__.lstrip("_")) == ("torch.multiprocessing.reductions", "reduce_event")
