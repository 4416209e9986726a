"""Memory figures: they follow allocations and frees; and what happens when memory runs out."""

from __future__ import annotations

import gc

import torch

from ..asking import Finding, Wrong, expect, main, question

_MIB = 1 << 20
_SIZE = 64 * _MIB
#: For figures of the whole process: other memory may come and go beside the tensor.
_SLACK = 8 * _MIB
#: More than any machine has.
_TOO_MUCH = 1 << 46


def _tensor(size: int = _SIZE) -> torch.Tensor:
    made = torch.ones(size, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    return made


def _allocated() -> int:
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


@question
def allocated_moves_and_comes_back() -> Finding:
    _tensor()  # memory that the first one needs stays allocated
    before = _allocated()
    tensor = _tensor()
    during = _allocated()
    del tensor
    after = _allocated()
    figures = {"before": before, "with 64 MiB more": during, "after": after}
    expect(abs(during - before - _SIZE) <= _SLACK, f"64 MiB show as {(during - before) / _MIB:.1f} MiB")
    expect(abs(after - before) <= _SLACK, f"{(after - before) / _MIB:.1f} MiB have not come back")
    return figures


@question
def peaks() -> Finding:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.max_memory_allocated()
    tensor = _tensor()
    del tensor
    _allocated()
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    reset = torch.cuda.max_memory_allocated()
    expect(peak >= before + _SIZE - _SLACK, f"the peak rose by {(peak - before) / _MIB:.1f} MiB, of 64")
    expect(reset <= peak - _SIZE + _SLACK, f"a reset leaves the peak at {reset / _MIB:.1f} MiB, of {peak / _MIB:.1f}")
    return {"before": before, "peak": peak, "reset": reset}


@question
def peaks_inside_operators() -> Finding:
    """Measure peaks inside operators, which a driver may not see: a figure, no verdict."""
    tensor = torch.ones(8 * _MIB, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.max_memory_allocated()
    (tensor + 1).mul_(2).sum().item()
    return {"MiB above what was held, of 32": (torch.cuda.max_memory_allocated() - before) / _MIB}


@question
def reserved_and_the_cache() -> Finding:
    tensor = _tensor()
    allocated, held = _allocated(), torch.cuda.memory_reserved()
    del tensor
    gc.collect()
    cached = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    emptied = torch.cuda.memory_reserved()
    expect(held >= allocated, f"{allocated} bytes are allocated, {held} reserved")
    expect(emptied <= cached, f"emptying the cache left {emptied} bytes, of {cached}")
    expect(emptied < held, f"nothing is given back: {emptied} bytes are reserved, of {held}")
    return {"held": held, "cached": cached, "emptied": emptied}


@question
def free_and_total() -> Finding:
    free, total = torch.cuda.mem_get_info()
    expect(0 <= free <= total and total > 0, f"{free} bytes of {total} are free")
    stated = torch.cuda.get_device_properties(0).total_memory
    expect(stated == total, f"the device has {stated} bytes by its properties, {total} by mem_get_info")
    return {"free": free, "total": total}


@question
def out_of_memory() -> Finding:
    try:
        torch.empty(_TOO_MUCH, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        expect(str(error).startswith("CUDA out of memory. Tried to allocate"), f"in these words: {error}")
        expect("mps" not in str(error).lower(), f"in these words: {error}")
    else:
        raise Wrong("64 TiB can be had")
    expect(_tensor(_MIB).sum().item() == _MIB, "the device is of no use after that")
    return None


@question
def tables() -> Finding:
    stats, summary, snapshot = torch.cuda.memory_stats(), torch.cuda.memory_summary(), torch.cuda.memory_snapshot()
    expect("allocated_bytes.all.current" in stats, "memory_stats() does not say what is allocated")
    expect("CUDA" in summary, "memory_summary() is not CUDA's")
    return {"statistics": len(stats), "segments": len(snapshot)}


if __name__ == "__main__":
    main()
