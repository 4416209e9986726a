"""Checkpoints of a pool: graphs are recorded behind others that were replayed, as cudagraph trees do."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from harness import CPU, VIRTUAL, child

from .test_graphs import captured

pytestmark = child(VIRTUAL)

SMALL, LARGE = 512, 3 << 20


def _state(pool: tuple[int, int]) -> list[tuple[Any, ...]]:
    return [
        (
            s["address"],
            s["total_size"],
            s["allocated_size"],
            [(b["address"], b["size"], b["state"]) for b in s["blocks"]],
        )
        for s in torch.cuda.memory_snapshot()
        if tuple(s["segment_pool_id"]) == pool
    ]


def _live(pool: tuple[int, int]) -> int:
    return sum(b[2] == "active_allocated" for s in _state(pool) for b in s[3])


def _bytes(count: int) -> torch.Tensor:
    return torch.ones(count, dtype=torch.uint8, device="cuda")


def _storages(*tensors: torch.Tensor) -> list[int]:
    return [t.untyped_storage()._cdata for t in tensors]


def _figures() -> dict[str, int]:
    kept = torch.cuda.memory_stats()
    return {name: value for name, value in kept.items() if name.endswith(".current")}


def test_a_pool_becomes_what_it_was() -> None:
    """Pieces in the middle of a segment too; and no figure of the present differs."""

    def body() -> tuple[torch.Tensor, ...]:
        small = [_bytes(SMALL) for _ in range(11)]
        return small[5], small[8], _bytes(LARGE)

    graph, _kept = captured(body)
    pool = graph.pool()
    before, figures = _state(pool), _figures()
    checkpoint = torch._C._cuda_getCheckpointState(0, pool)
    torch._C._cuda_setCheckpointPoolState(0, checkpoint, [], [])
    assert _state(pool) == before
    assert _figures() == figures


def test_later_allocations_are_freed() -> None:
    graph, first = captured(lambda: _bytes(SMALL))
    pool = graph.pool()
    before, checkpoint = _state(pool), torch._C._cuda_getCheckpointState(0, pool)
    later, second = captured(lambda: _bytes(SMALL), pool=pool)
    with pytest.raises(RuntimeError, match="stale tensors which are being manually freed must be passed"):
        torch._C._cuda_setCheckpointPoolState(0, checkpoint, [], [])
    torch._C._cuda_setCheckpointPoolState(0, checkpoint, _storages(second), [])
    address = second.data_ptr()
    del second  # which frees nothing: its memory is nobody's
    assert _state(pool) == before
    del later
    another, third = captured(lambda: _bytes(SMALL), pool=pool)
    assert third.data_ptr() == address
    graph.replay()
    another.replay()
    assert first.sum().item() == third.sum().item() == SMALL


def test_storages_own_what_is_handed_out_again() -> None:
    """As trees do with what a replay makes: tensors are built over addresses, and freed like others."""
    x = torch.ones(1, dtype=torch.uint8, device="cuda")
    graph, made = captured(lambda: (_bytes(SMALL) + x, _bytes(LARGE) + x))
    pool, checkpoint = graph.pool(), torch._C._cuda_getCheckpointState(0, graph.pool())
    told = [{"size": (t.numel(),), "stride": (1,), "dtype": t.dtype, "storage_offset": 0} for t in made]
    places = [t.data_ptr() for t in made]
    assert [torch._C._has_Standard_Deleter(s) for s in _storages(*made)] == [True, True]
    del made
    assert _live(pool) == 0
    built = []
    for how, place in zip(told, places, strict=True):
        storage = torch._C._construct_storage_from_data_pointer(place, torch.device("cuda:0"), how["size"][0])
        built.append(torch._C._construct_CUDA_Tensor_From_Storage_And_Metadata(how, storage))
    assert [torch._C._has_Standard_Deleter(s) for s in _storages(*built)] == [False, False]
    x.add_(1)
    graph.replay()
    assert [int(t[-1]) for t in built] == [3, 3]
    torch._C._cuda_setCheckpointPoolState(0, checkpoint, [], _storages(built[0]))
    assert _live(pool) == 2
    del built, storage
    gc.collect()
    assert _live(pool) == 1
    torch._C._cuda_cudaCachingAllocator_raw_delete(places[1])
    assert _live(pool) == 0


def test_memory_is_freed_under_a_storage_and_forbidden() -> None:
    x = _bytes(SMALL)
    before = torch.cuda.memory_allocated()
    storage = _storages(x)[0]
    torch._C._free_And_Remove_DeleterFn(storage)
    assert torch.cuda.memory_allocated() == before - SMALL
    with pytest.raises(RuntimeError, match="Expected standard deleter"):
        torch._C._free_And_Remove_DeleterFn(storage)
    torch._C._set_storage_data_ptr_access_error_msg(storage, "it is overwritten")
    for look in (lambda: x + 1, lambda: x.untyped_storage().data_ptr()):
        with pytest.raises(RuntimeError, match="it is overwritten"):
            look()
    torch._C._clear_storage_data_ptr_access_error_msg(storage)
    if torch.__version__ >= "2.13":  # before, stock torch has no such function
        assert x.data_ptr()
    torch._C._set_storage_access_error_msg(x, "it is gone")
    with pytest.raises(RuntimeError, match="it is gone"):
        x.add_(1)


def test_pools_that_are_not_there() -> None:
    with pytest.raises(RuntimeError, match="Could not find pool of id"):
        torch._C._cuda_getCheckpointState(0, (77, 77))
    with pytest.raises(TypeError, match="No constructor defined"):
        torch._C._cuda_CUDAAllocator_AllocatorState()
    with pytest.raises(TypeError, match="expected a state of _cuda_getCheckpointState, but got int"):
        torch._C._cuda_setCheckpointPoolState(0, 3, [], [])


@child(CPU)
def test_pools_of_graphs() -> None:
    for ask in (lambda: torch._C._cuda_getCheckpointState(0, (0, 1)), lambda: torch._C._free_And_Remove_DeleterFn(0)):
        with pytest.raises(RuntimeError, match="the 'cpu' driver of torchdevice_cuda has no such pools"):
            ask()
    assert not torch._C._has_Standard_Deleter(0)


@pytest.mark.parametrize("reuse", [True, False])
def test_memory_used_by_another_stream_is_free_behind_it(reuse: bool) -> None:
    """``graph_capture_record_stream_reuse``: in the capture, once the streams have been joined; else only after it."""
    torch.cuda.memory._set_allocator_settings(f"graph_capture_record_stream_reuse:{reuse}")
    first, second, third = (torch.cuda.Stream() for _ in range(3))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(first):
        graph.capture_begin()
        kept = torch.empty(8, device="cuda")
        data = torch.empty(8, device="cuda")
        address = data.data_ptr()
        for stream in (second, third):
            stream.wait_stream(first)
            with torch.cuda.stream(stream):
                data.add(1)
                data.record_stream(stream)
        del data
        seen = [torch.empty(8, device="cuda")]
        for stream in (second, third):
            first.wait_stream(stream)
            kept.fill_(1)
            seen.append(torch.empty(8, device="cuda"))
        graph.capture_end()
    torch.cuda.memory._set_allocator_settings("graph_capture_record_stream_reuse:False")
    assert [t.data_ptr() == address for t in seen] == [False, False, reuse]
