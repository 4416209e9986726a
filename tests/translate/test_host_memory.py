"""The host's memory and cores as the CUDA device: moves copy as between devices, and the cores stay in use."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable

import pytest
import torch
from harness import CPU, child, together
from torch.utils.data import DataLoader, TensorDataset

from torchdevice_cuda.drivers.host.memory import high_water_mark
from torchdevice_cuda.translate.core.marks import Marks

from .asking import on_cuda

MOVES: dict[str, Callable[[torch.nn.Module], torch.nn.Module]] = {
    "cuda()": lambda module: module.cuda(),
    "to('cuda')": lambda module: module.to("cuda"),
    "to(0)": lambda module: module.to(0),
    "to(device='cuda:0')": lambda module: module.to(device="cuda:0"),
}


@child(CPU)
@pytest.mark.parametrize("move", MOVES)
def test_a_module_moves_once(move: str) -> None:
    module = torch.nn.Linear(2, 2)
    first = module.weight.data_ptr()
    MOVES[move](module)
    moved = module.weight.data_ptr()
    assert moved != first
    for again in (MOVES[move], torch.nn.Module.cuda, lambda module: module.to("cuda")):
        again(module)
        assert module.weight.data_ptr() == moved
    module.cpu()
    assert module.weight.data_ptr() != moved


@child(CPU)
def test_a_snapshot_on_the_cpu_is_a_copy() -> None:
    """The usual way to keep the best weights so far; also after the module has been on the CPU in between."""
    module = torch.nn.Linear(2, 2).to("cuda")
    module.cuda().cpu()
    module.cuda()
    best = {name: value.cpu() for name, value in module.state_dict().items()}
    row = module.weight.detach()[0].to("cpu")
    expected = module.weight.detach().clone()
    with torch.no_grad():
        module.weight.add_(1)
    assert torch.equal(best["weight"], expected)
    assert torch.equal(row, expected[0])


@child(CPU)
def test_new_memory_is_not_taken_for_memory_that_was_moved() -> None:
    """Storages are known by their address, which another has when the first is gone."""
    addresses = set()
    for _ in range(100):
        module = torch.nn.Linear(2, 2).cuda()
        addresses.add(module.weight.untyped_storage()._cdata)
        del module
    gc.collect()
    fresh = [torch.nn.Linear(2, 2).weight for _ in range(1000)]
    reused = [one for one in fresh if one.untyped_storage()._cdata in addresses]
    assert reused, "no address was used again: this shows nothing"
    assert [one for one in reused if on_cuda(one.detach())] == []


@child(CPU)
def test_arguments_of_to_keep_the_device_they_name() -> None:
    """Lightning parses them to know where a module is."""
    parse = torch._C._nn._parse_to
    assert str(parse("cuda")[0]) == "cuda"
    assert str(parse("cuda:0")[0]) == "cuda:0"
    assert str(parse(0)[0]) == "cuda:0"
    assert str(parse("cpu")[0]) == "cpu"
    assert parse(torch.float16)[0] is None


@child(CPU.within(OMP_NUM_THREADS="2"))
def test_pinning_leaves_the_cores_to_the_program() -> None:
    before = torch.get_num_threads()
    if before == 1:
        pytest.skip("torch uses one core here, whatever it is told")
    for batch in DataLoader(TensorDataset(torch.ones(4)), num_workers=1, pin_memory=True):
        assert batch[0].is_pinned()
    assert torch.get_num_threads() == before
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert found == [before], "a new thread"


# ---------------------------------------------------------------------------- profilers
def profile() -> None:
    _profile(torch.profiler.profile())


def autograd_profile() -> None:
    _profile(torch.autograd.profiler.profile(use_device="cuda"))


def _profile(profiler: torch.profiler.profile) -> None:
    module = torch.nn.Linear(2, 2).cuda()
    with profiler:
        module(torch.ones(1, 2, device="cuda")).sum().backward()
    assert "aten::linear" in {event.key for event in profiler.key_averages()}


@pytest.mark.parametrize("name", ["profile", "autograd_profile"])
def test_profilers_do_not_look_for_cuda_events(name: str) -> None:
    done = together(CPU, [profile, autograd_profile])[name]
    done.checked()
    assert "CUDA event" not in done.err


# -------------------------------------------------------------------------------- leaks
def translated_calls(count: int) -> None:
    """Calls whose results live for a while."""
    kept = [()] * 64
    x = torch.ones(4)
    for number in range(count):
        y = torch.zeros(4, device="cuda")
        kept[number % 64] = y.to("cuda"), x.cuda(), y.cpu(), torch.zeros_like(y)


@child(CPU, alone=True)
def test_many_translated_calls_leave_memory_flat() -> None:
    """200,000 calls, their results living and dying: nothing accumulates."""
    translated_calls(5000)
    gc.collect()
    tracemalloc.start()
    translated_calls(2000)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    translated_calls(10000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 600_000, "bytes more of Python's memory"
    mark = high_water_mark()
    translated_calls(40000)
    assert high_water_mark() - mark < 8 << 20, "bytes more of the process's memory"


def test_marks_die_with_their_tensors() -> None:
    marks = Marks()
    kept = [marks.add(torch.empty(0)) for _ in range(100)]
    for _ in range(20_000):
        marks.add(torch.empty(0))
    others = [marks.add(torch.empty(0)) for _ in range(10_000)]
    assert all(tensor in marks for tensor in kept + others)
    assert torch.empty(0) not in marks
    assert len(marks.refs) <= marks.limit
    del others
    marks.sweep()
    assert len(marks.refs) <= 101
    assert all(tensor in marks for tensor in kept)


# ------------------------------------------------------------------------------ untouched
@child(CPU)
@pytest.mark.parametrize(
    "name", ["device", "is_cuda", "add", "__add__", "mm", "matmul", "backward", "get_device", "item", "tolist"]
)
def test_methods_that_need_no_translation_are_torchs(name: str) -> None:
    """They cost what they cost."""
    mine = torch.Tensor.__dict__.get(name)
    assert mine is None or mine.__module__ == "torch._tensor"


@child(CPU)
def test_properties_are_torchs_very_descriptors() -> None:
    assert torch.Tensor.device is torch._C.TensorBase.device
    assert torch.Tensor.is_cuda is torch._C.TensorBase.is_cuda


@child(CPU)
@pytest.mark.parametrize("name", ["add", "mm", "matmul", "relu"])
def test_functions_that_need_no_translation_are_torchs(name: str) -> None:
    assert getattr(torch, name) is getattr(torch._C._VariableFunctions, name)
