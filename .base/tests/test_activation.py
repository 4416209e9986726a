"""Activation: before torch, after it, twice, wrongly, and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import run_python

SCAN = """
def scan():
    import sys, torch
    found = {}
    for name, module in list(sys.modules.items()):
        if name == "torch" or name.startswith("torch."):
            for attribute, value in list(vars(module).items()):
                found[name, attribute] = value
    for owner in (torch.Tensor, torch.nn.Module, torch.amp.autocast, torch.UntypedStorage):
        for attribute, value in vars(owner).items():
            found[owner.__name__, attribute] = value
    return found

def changes(before, after):
    '''Attributes that are not what they were; a submodule of torch that was imported meanwhile is no change.'''
    import types
    modules = {name for name, _ in before}
    new = [key for key in after if key not in before and key[0] in modules]
    return [key for key in before if key not in after or after[key] is not before[key]] + [
        key for key in new if not isinstance(after[key], types.ModuleType)
    ]
"""


def test_importing_the_package_imports_no_torch() -> None:
    run_python("import torchdevice_cuda, sys; assert 'torch' not in sys.modules")


def test_activation_before_torch_imports_no_torch() -> None:
    run_python("import torchdevice_cuda, sys; torchdevice_cuda.activate(); assert 'torch' not in sys.modules")


def test_names_agree(order: str, run: Callable) -> None:
    run(
        """
        import pickle, sys
        from torch.cuda import Stream, is_available, memory_allocated
        assert torch.cuda is sys.modules["torch.cuda"]
        assert is_available is torch.cuda.is_available is sys.modules["torch.cuda"].is_available
        assert memory_allocated is torch.cuda.memory.memory_allocated
        for thing in (is_available, Stream, torch.cuda.amp.autocast, torch.cuda.memory.MemPool, torch.cuda.nvtx.mark):
            assert pickle.loads(pickle.dumps(thing)) is thing and thing.__doc__, thing
            assert thing.__module__.startswith("torch.cuda"), thing
        assert torch.cuda.streams.Stream is Stream and Stream.__module__ == "torch.cuda.streams"
        import torch.cuda._memory_viz as stock
        assert "torchdevice_cuda" not in stock.__file__
        """,
        order=order,
    )


def test_tensor_classes_of_cpp_survive(order: str, run: Callable) -> None:
    run(
        """
        import torch.cuda.sparse
        for name in "FloatTensor HalfTensor LongTensor BFloat16Tensor BoolTensor".split():
            assert type(getattr(torch.cuda, name)).__name__ == "tensortype", name
        assert torch.cuda.sparse.FloatTensor.__module__ == "torch.cuda.sparse"
        """,
        order=order,
    )


@pytest.mark.parametrize("dynamo", [False, True])
def test_names_bound_before_follow_and_everything_is_put_back(dynamo: bool) -> None:
    run_python(
        SCAN
        + f"""
import torch
if {dynamo}:
    import torch._dynamo, torch._inductor.compile_fx
from torch.cuda import Event, Stream, device_count, is_available, nvtx, set_device
import torchdevice_cuda
before = scan()
torchdevice_cuda.activate(driver="cpu", devices=2)
assert is_available() and device_count() == 2 and isinstance(Stream(), torch.cuda.Stream)
assert isinstance(torch.cuda.Event(), Event) and nvtx.range_push("x") is not None
set_device(1)
assert torch.cuda.current_device() == 1
torchdevice_cuda.deactivate()
assert not is_available() and device_count() == 0 and not torchdevice_cuda.is_active()
assert changes(before, scan()) == [], changes(before, scan())[:20]
"""
    )


def test_deactivation_after_early_activation_gives_stock_torch() -> None:
    run_python(
        """
        import torchdevice_cuda
        torchdevice_cuda.activate(driver="cpu")
        import torch
        from torch.cuda import is_available
        assert is_available()
        torchdevice_cuda.deactivate()
        assert not is_available() and not torch.cuda.is_available() and torch.version.cuda is None
        assert "torchdevice_cuda" not in torch.cuda.__file__ and not hasattr(torch._C, "_cuda_getDeviceCount")
        assert torch.accelerator.current_accelerator() is None and type(torch.Stream) is type
        try:
            torch.zeros(1, device="cuda")
        except (AssertionError, NotImplementedError, RuntimeError):
            pass
        else:
            raise SystemExit("CUDA still answers")
        torchdevice_cuda.activate(driver="cpu")
        assert is_available() and torch.cuda.Stream().query()
        """
    )


def test_cycles_leak_nothing() -> None:
    run_python(
        """
        import gc, torch, torchdevice_cuda
        def cycle():
            torchdevice_cuda.activate(driver="cpu")
            torch.cuda.Stream().synchronize()
            torchdevice_cuda.deactivate()
        def count():
            gc.collect()
            return len(gc.get_objects())
        for _ in range(5): cycle()
        before = count()
        for _ in range(100): cycle()
        grown = count() - before
        assert grown < 500, f"{grown} objects more after 100 cycles"
        """,
        timeout=300,
    )


def test_second_activation_is_the_same_or_an_error(run: Callable) -> None:
    run(
        """
        stream = torch.cuda.Stream()
        torchdevice_cuda.activate()
        torchdevice_cuda.activate(driver="cpu")
        try:
            torchdevice_cuda.activate(driver="cpu", devices=3)
        except RuntimeError as error:
            assert "already active" in str(error) and "devices=3" in str(error), error
        else:
            raise SystemExit("accepted")
        assert torch.cuda.device_count() == 1 and stream.query()
        """
    )


@pytest.mark.parametrize("step", ["Bindings.apply", "patches.apply", "Rewrite.apply", "select"])
def test_failure_half_way_leaves_torch_untouched(step: str) -> None:
    run_python(
        SCAN
        + f"""
import torch
from torchdevice_cuda import activation, inplace, shadow
from torchdevice_cuda.translate import patches
import torchdevice_cuda
before = scan()

def fail_after(function):
    def run(*args, **kwargs):
        function(*args, **kwargs)
        raise ZeroDivisionError("half way")
    return run

def fail(editor, driver):
    raise ZeroDivisionError("half way")

owner, _, name = {step!r}.rpartition(".")
patches.registered()
place = {{"Bindings": shadow.Bindings, "Rewrite": inplace.Rewrite, "": activation}}.get(owner)
if place is None:
    place, name, fail_after = type("Last", (), {{}}), "patch", lambda function: function
    place.patch = patches.Patch("zz.last", fail, "", None)
    patches._registry["zz.last"] = place.patch
genuine = getattr(place, name)
setattr(place, name, fail_after(genuine))
for _ in range(2):
    try:
        torchdevice_cuda.activate(driver="cpu")
    except ZeroDivisionError:
        pass
    else:
        raise SystemExit("no error")
    assert not torchdevice_cuda.is_active() and changes(before, scan()) == [], changes(before, scan())[:20]
setattr(place, name, genuine)
patches._registry.pop("zz.last", None)
torchdevice_cuda.activate(driver="cpu")
assert torch.cuda.is_available()
"""
    )


@pytest.mark.parametrize("broken", ["shadow/cuda/streams.py", "shadow/cuda/random.py", "translate/accelerator.py"])
def test_broken_part_before_torch_leaves_a_working_torch(broken: str, tmp_path) -> None:
    import shutil
    from pathlib import Path

    import torchdevice_cuda

    copy = tmp_path / "torchdevice_cuda"
    shutil.copytree(Path(torchdevice_cuda.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / broken).write_text("raise ZeroDivisionError('broken')\n")
    done = run_python(
        f"""
        import sys; sys.path.insert(0, {str(tmp_path)!r})
        import torchdevice_cuda; assert torchdevice_cuda.__file__.startswith({str(tmp_path)!r})
        torchdevice_cuda.activate(driver="cpu")
        import torch
        assert not torch.cuda.is_available() and not torchdevice_cuda.is_active()
        assert "torchdevice_cuda" not in torch.cuda.__file__
        assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)
        """
    )
    assert done.stderr.count("could not start") == 1 and "broken" in done.stderr


def test_driver_that_cannot_work_says_why() -> None:
    done = run_python("import torchdevice_cuda; torchdevice_cuda.activate(driver='cuda'); import torch", check=False)
    assert done.returncode and "driver 'cuda' was asked for, but this torch is built without CUDA" in done.stderr


def test_unknown_torch_version_warns_once_and_goes_on(tmp_path) -> None:
    done = run_python(
        """
        import torch; torch.__version__ = "9.9.0"
        import torchdevice_cuda; torchdevice_cuda.activate(driver="cpu")
        assert torch.cuda.is_available()
        """
    )
    assert done.stderr.count("torch 9.9.0 is outside the versions") == 1
