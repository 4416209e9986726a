"""Nothing else changes: what a program sees besides where its tensors live is what stock torch shows it.

The cases (``tests/cases/transparency.py``) run under stock torch and under activation, each in one process.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
from cases import harness
from conftest import ORDERS, run_python

# torch.compile's part of torch changes a few functions of torch itself when it is imported.
STOCK = {"stock": "import torch", "stock dynamo": "import torch, torch._dynamo"}
MODULE = "transparency"


@functools.cache
def seen(order: str) -> dict[str, Any]:
    """What the cases return under stock torch, or under activation in an order."""
    preamble = STOCK.get(order) or ORDERS[order].format(settings="driver='cpu'")
    return harness.results(run_python(harness.program(MODULE, preamble), timeout=300).stdout)


@pytest.mark.parametrize("when", ["before", "after dynamo"])
@pytest.mark.parametrize("case", harness.names(MODULE))
def test_as_with_stock_torch(case: str, when: str) -> None:
    expected, got = seen("stock dynamo" if "dynamo" in when else "stock")[case], seen(when)[case]
    assert "error" not in expected, expected["error"]
    assert "error" not in got, got["error"]
    assert got["value"] == expected["value"]


SCAN = """
import sys, torch
import torch._dynamo, torch._dynamo.variables.torch as variables, torch._dynamo.trace_rules as rules
import torch.cuda.comm, torch.cuda.sparse, torch.nn.parallel, torch.jit._builtins, torch.profiler
from torch.utils._device import DeviceContext, _device_constructors

OWNERS = [torch.Tensor, torch.nn.Module, torch.amp.autocast, torch.amp.GradScaler, torch.UntypedStorage,
          torch.storage._StorageBase, torch.nn.DataParallel, torch.overrides.TorchFunctionMode, DeviceContext,
          torch.Generator, torch.nn.utils.rnn.PackedSequence]
MODULES = "torch torch.nn torch.amp torch.random torch.cuda torch.fft torch.serialization torch.optim torch._C".split()

def scan():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("torch") and module is not None and not name.startswith("torchdevice_cuda"):
            found.update({(name, key): value for key, value in list(vars(module).items())})
    for owner in OWNERS:
        found.update({(owner.__name__, key): value for key, value in vars(owner).items()})
    for number, function in enumerate(sorted(_device_constructors(), key=id)):
        found["device constructors", number] = function
    for number, entry in enumerate(torch.serialization._package_registry):
        found["restorers", number] = entry
    for key, value in torch.jit._builtins._get_builtin_table().items():
        found["builtins", key] = value
    for table in (rules.get_torch_obj_rule_map(), variables.constant_fold_functions):
        found.update({("dynamo", str(key)): value for key, value in table.items()})
    return found

def changes(before, after):
    return [key for key in before if key not in after or after[key] is not before[key]] + [
        key for key in after if key not in before]

def autocast_kernels():
    names = torch._C._dispatch_get_all_op_names()
    return {name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCPU")}
"""


def test_after_deactivation_every_attribute_is_the_original() -> None:
    run_python(
        SCAN
        + """
import torchdevice_cuda
missing = [name for name in MODULES if name not in sys.modules]
assert not missing, missing
from torchdevice_cuda.translate import amp
for names, _ in amp.RULES.values():
    list(map(amp._overload, names))  # torch.ops makes an operator's object, and files it, when it is first looked at
scan()  # what torch loads lazily when looked at is loaded now
before, kernels = scan(), autocast_kernels()
for _ in range(2):
    torchdevice_cuda.activate(driver="cpu")
    during = changes(before, scan())
    for owner, name in [("torch", "zeros"), ("torch.fft", "fftfreq"), ("Tensor", "to"), ("Tensor", "cuda"),
                        ("torch.cuda", "FloatTensor"), ("TorchFunctionMode", "__enter__")]:
        assert (owner, name) in during, (owner, name)  # the scan does see the patches
    assert autocast_kernels() - kernels, "no kernels for CUDA's autocast rules"
    torch.zeros(3, device="cuda").cpu()
    with torch.autocast("cuda", dtype=torch.float16):
        torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
    torchdevice_cuda.deactivate()
    assert changes(before, scan()) == [], changes(before, scan())[:20]
    assert autocast_kernels() == kernels, autocast_kernels() - kernels
x = torch.ones(2)
assert x.to("cpu") is x and torch.zeros_like in torch.overrides.get_overridable_functions()[torch]
with torch.autocast("cpu", dtype=torch.bfloat16):
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    assert torch.nn.functional.mse_loss(torch.ones(2), torch.zeros(2)).dtype is torch.float32
"""
    )


def test_names_bound_before_follow_and_go_back() -> None:
    run_python(
        """
        import torch
        from torch import arange, rand, tensor, zeros, zeros_like
        from torch import is_autocast_enabled, load
        from torch.fft import fftfreq
        import types
        theirs = types.ModuleType("program_of_others"); theirs.make = torch.full
        import sys; sys.modules["program_of_others"] = theirs
        stock = [zeros]  # not a name of the module: those follow
        import torchdevice_cuda
        torchdevice_cuda.activate(driver="cpu")
        assert zeros is torch.zeros and zeros is not stock[0] and fftfreq is torch.fft.fftfreq
        for made in (zeros(2, device="cuda"), arange(2, device="cuda:0"), rand(2, device=0), tensor(1, device="cuda"),
                     zeros_like(zeros(1), device="cuda"), fftfreq(4, device="cuda"),
                     theirs.make((2,), 1.0, device="cuda")):
            assert made.device.type == "cpu" and made.cuda() is made
        torchdevice_cuda.deactivate()
        assert zeros is torch.zeros is stock[0] and theirs.make is torch.full
        for make in (zeros, theirs.make):
            try:
                make((2,), 1.0, device="cuda") if make is theirs.make else make(2, device="cuda")
            except (AssertionError, NotImplementedError, RuntimeError):
                pass
            else:
                raise SystemExit("CUDA still answers")
        """
    )


def test_device_and_is_cuda_are_not_touched(run) -> None:
    """On the cpu driver they cost what they cost: the very descriptors of torch."""
    run(
        """
        base = torch._C.TensorBase
        for name in ("device", "is_cuda", "add", "__add__", "mm", "matmul", "backward", "get_device", "item", "tolist"):
            mine = torch.Tensor.__dict__.get(name)
            assert mine is None or mine.__module__ == "torch._tensor", name
        assert torch.Tensor.device is base.device and torch.Tensor.is_cuda is base.is_cuda
        for name in ("add", "mm", "matmul", "relu"):
            assert getattr(torch, name) is getattr(torch._C._VariableFunctions, name), name
        """
    )


def test_many_translated_calls_leave_memory_flat(run) -> None:
    """200,000 calls, their results living and dying: nothing accumulates."""
    run(
        """
        import gc, resource, tracemalloc
        def calls(count):
            kept = [None] * 64
            x = torch.ones(4)
            for i in range(count):
                y = torch.zeros(4, device="cuda")
                kept[i % 64] = y.to("cuda"), x.cuda(), y.cpu(), torch.zeros_like(y)
        calls(5000)
        gc.collect()
        tracemalloc.start()
        calls(2000)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        calls(10000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert grown < 600_000, f"{grown} bytes more of Python's memory"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        calls(40000)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 8 << 10, f"{grown} KiB more after 200,000 calls"
        """
    )


def test_marks_die_with_their_tensors() -> None:
    torch = pytest.importorskip("torch")
    from torchdevice_cuda.translate.devices import Marks

    marks = Marks()
    kept = [marks.add(torch.empty(0)) for _ in range(100)]
    for _ in range(20_000):
        marks.add(torch.empty(0))
    others = [marks.add(torch.empty(0)) for _ in range(10_000)]
    assert all(tensor in marks for tensor in kept + others) and torch.empty(0) not in marks
    assert len(marks.refs) <= marks.limit
    del others
    marks.sweep()
    assert len(marks.refs) <= 101 and all(tensor in marks for tensor in kept)
