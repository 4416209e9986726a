"""The caching allocator: what it counts, keeps and gives back."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import kind, probe, raises, warned
from recorded.oracle.scenes import clean, stat

MIB = 1 << 20


@probe()
def sizes_of_segments() -> Any:
    clean()
    out = []
    for size in (1, 512, MIB - 512, MIB, MIB + 1, 5 * MIB, 10 * MIB - 1, 10 * MIB, 11 * MIB, 20 * MIB + 3, 33 * MIB):
        clean()
        x = torch.empty(size, dtype=torch.uint8, device="cuda")
        out.append([size, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()])
        del x
    return out


@probe()
def small_blocks_share_a_segment() -> Any:
    clean()
    xs = [torch.empty(1000, dtype=torch.uint8, device="cuda") for _ in range(10)]
    a = [
        torch.cuda.memory_allocated(),
        torch.cuda.memory_reserved(),
        stat("segment.all.current"),
        stat("active.all.current"),
        stat("inactive_split.all.current"),
    ]
    del xs[::2]
    b = [torch.cuda.memory_allocated(), stat("inactive_split_bytes.all.current"), stat("inactive_split.all.current")]
    return [a, b]


@probe()
def peaks() -> Any:
    clean()
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    del x
    y = torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")
    out = [torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated(), torch.cuda.max_memory_reserved()]
    torch.cuda.reset_peak_memory_stats()
    out += [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]
    del y
    return out


@probe()
def counters() -> Any:
    clean()
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    y = torch.empty(100, dtype=torch.uint8, device="cuda")
    del x
    s = torch.cuda.memory_stats()
    del y
    wanted = [
        f"{a}.{p}.{w}"
        for a in ("allocation", "segment", "active", "allocated_bytes", "reserved_bytes", "requested_bytes")
        for p in ("all", "small_pool", "large_pool")
        for w in ("current", "peak", "allocated", "freed")
    ]
    return {k: s[k] for k in wanted}


@probe()
def reuse_of_blocks() -> Any:
    clean()
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    p = x.data_ptr()
    del x
    y = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    same = y.data_ptr() == p
    z = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    s = torch.cuda.Stream()
    q = z.data_ptr()
    del z
    with torch.cuda.stream(s):
        w = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    return [same, w.data_ptr() == q, p % 512]


@probe()
def record_stream_delays_reuse() -> Any:
    clean()
    s = torch.cuda.Stream()
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    p = x.data_ptr()
    with torch.cuda.stream(s):
        torch.cuda._sleep(100_000_000)
    x.record_stream(s)
    del x
    y = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    early = y.data_ptr() == p
    torch.cuda.synchronize()
    z = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    return [early, z.data_ptr() == p]


@probe(alone=True, quiet=True)
def empty_cache_gives_back() -> Any:
    clean()
    free = torch.cuda.mem_get_info()[0]
    x = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    held = free - torch.cuda.mem_get_info()[0]
    del x
    kept = free - torch.cuda.mem_get_info()[0]
    torch.cuda.empty_cache()
    return [held, kept, free - torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()]


@probe()
def out_of_memory() -> Any:
    clean()
    torch.cuda.set_per_process_memory_fraction(0.01)
    total = torch.cuda.get_device_properties(0).total_memory
    out = [kind(lambda: torch.empty(int(total * 0.02), dtype=torch.uint8, device="cuda"))]
    text = ""
    try:
        torch.empty(int(total * 0.02), dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        text = str(error)
        out += [isinstance(error, RuntimeError), [c.__name__ for c in type(error).__mro__]]
    words = [
        part in text
        for part in (
            "CUDA out of memory. Tried to allocate",
            "GPU 0 has a total capacity of",
            "of which",
            "is free",
            "Including non-PyTorch memory, this process has",
            "memory in use",
            "allowed; Of the allocated memory",
            "is allocated by PyTorch",
            "is reserved by PyTorch but unallocated",
            "expandable_segments:True",
            "See documentation for Memory Management",
        )
    ]
    return [*out, words, stat("num_ooms"), stat("num_alloc_retries"), torch.cuda.memory_allocated()]


@probe(alone=True)
def an_observer_of_out_of_memory() -> Any:
    clean()
    seen: list[Any] = []
    torch._C._cuda_attach_out_of_memory_observer(
        lambda *a: seen.append([len(a), [type(v).__name__ for v in a], a[0], a[1]])
    )
    torch.cuda.set_per_process_memory_fraction(0.01)
    total = torch.cuda.get_device_properties(0).total_memory
    return [
        kind(lambda: torch.empty(total // 50, dtype=torch.uint8, device="cuda")),
        [v[:2] for v in seen],
        [v[3] >= total // 50 for v in seen],
    ]


@probe()
def the_snapshot() -> Any:
    clean()
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    snapshot = torch.cuda.memory_snapshot()
    segment = next(s for s in snapshot if s["address"] <= x.data_ptr() < s["address"] + s["total_size"])
    return [
        sorted(segment),
        segment["total_size"],
        segment["allocated_size"],
        segment["active_size"],
        segment["requested_size"],
        segment["segment_type"],
        segment["stream"],
        segment["device"],
        list(segment["segment_pool_id"]),
        segment["is_expandable"],
        [sorted(b) for b in segment["blocks"]],
        [[b["size"], b["requested_size"], b["state"]] for b in segment["blocks"]],
    ]


@probe(alone=True)
def rounding_to_powers_of_two() -> Any:
    torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:4")
    base = clean()
    out = []
    for size in (1200, 3 * MIB + 1, 5 * MIB + 1):
        x = torch.empty(size, dtype=torch.uint8, device="cuda")
        out.append(torch.cuda.memory_allocated() - base)
        del x
    return out


@probe(alone=True)
def expandable_segments() -> Any:
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    clean()
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    y = torch.empty(100, dtype=torch.uint8, device="cuda")
    a = [torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]
    s = [[s["is_expandable"], s["total_size"], s["segment_type"]] for s in torch.cuda.memory_snapshot()]
    del x, y
    torch.cuda.empty_cache()
    return [a, s, torch.cuda.memory_reserved()]


@probe()
def pools_of_memory() -> Any:
    clean()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    y = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    inside = pool.snapshot()
    out = [
        len(inside),
        inside[0]["total_size"],
        list(inside[0]["segment_pool_id"]) == list(pool.id),
        pool.use_count(),
        any(s["address"] <= y.data_ptr() < s["address"] + s["total_size"] for s in inside),
    ]
    del x
    torch.cuda.empty_cache()
    out += [len(pool.snapshot())]
    del pool
    torch.cuda.empty_cache()
    return [*out, len(torch.cuda.memory_snapshot())]


@probe()
def fractions() -> Any:
    return [
        torch.cuda.get_per_process_memory_fraction(),
        raises(lambda: torch.cuda.set_per_process_memory_fraction(-0.1)),
        raises(lambda: torch.cuda.set_per_process_memory_fraction(0.5, "cpu")),
        raises(lambda: torch.cuda.set_per_process_memory_fraction(0.0)),
        torch.cuda.get_per_process_memory_fraction(),
    ]


@probe()
def host_memory() -> Any:
    torch.cuda.reset_peak_host_memory_stats()
    torch.cuda.reset_accumulated_host_memory_stats()
    x = torch.empty(3 * MIB, dtype=torch.uint8, pin_memory=True)
    s = torch.cuda.host_memory_stats()
    a = {k: s[k] for k in sorted(s) if k.endswith((".current", ".allocated")) and "time" not in k}
    del x
    s = torch.cuda.host_memory_stats()
    b = {k: s[k] for k in sorted(s) if k.endswith(".current") and "time" not in k}
    torch._C._host_emptyCache()
    return [
        a,
        b,
        {k: v for k, v in torch.cuda.host_memory_stats().items() if k.endswith("bytes.current")},
        sorted(torch.cuda.host_memory_stats_as_nested_dict()),
    ]


@probe()
def raw_allocations() -> Any:
    base = clean()
    p = torch.cuda.caching_allocator_alloc(1000)
    held = torch.cuda.memory_allocated() - base
    torch.cuda.caching_allocator_delete(p)
    return [
        type(p).__name__,
        held,
        torch.cuda.memory_allocated() - base,
        raises(lambda: torch.cuda.caching_allocator_delete(p)),
        raises(lambda: torch.cuda.caching_allocator_alloc("x")),
        raises(lambda: torch.cuda.caching_allocator_enable(False)),
        raises(lambda: torch.cuda.caching_allocator_enable(True)),
    ]


@probe()
def resizing_storages() -> Any:
    base = clean()
    x = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    x.untyped_storage().resize_(0)
    a = torch.cuda.memory_allocated() - base
    x.untyped_storage().resize_(2 * MIB)
    b = torch.cuda.memory_allocated() - base
    x.resize_(3 * MIB)
    return [a, b, torch.cuda.memory_allocated() - base, x.untyped_storage().nbytes()]


@probe()
def usage_lists() -> Any:
    torch.cuda.init()
    text = torch.cuda.memory_summary(abbreviated=True)
    return [
        [line.split("|")[1].strip() for line in text.splitlines() if line.count("|") > 3],
        torch.cuda.memory_summary(0, False).count("\n"),
        type(torch.cuda.memory_stats()).__name__,
        list(torch.cuda.memory_stats_as_nested_dict())[:5],
    ]


@probe(alone=True)
def before_initialisation() -> Any:
    return [
        torch.cuda.is_initialized(),
        torch.cuda.memory_allocated(),
        torch.cuda.memory_stats(),
        torch.cuda.max_memory_allocated(),
        torch.cuda.is_initialized(),
        raises(torch.cuda.empty_cache),
        torch.cuda.is_initialized(),
        raises(lambda: torch.cuda.reset_peak_memory_stats()),
        torch.cuda.is_initialized(),
        warned(lambda: torch.cuda.memory_reserved()),
    ]


@probe()
def workspaces_and_temporaries() -> Any:
    clean()
    x = torch.empty(256, 256, device="cuda")
    base = torch.cuda.memory_allocated()
    x @ x
    first = torch.cuda.memory_allocated() - base
    x @ x
    second = torch.cuda.memory_allocated() - base
    torch._C._cuda_clearCublasWorkspaces()
    return [first > 0, second == first, torch.cuda.memory_allocated() - base]


@probe()
def peaks_of_operators() -> Any:
    out = []
    x = torch.ones(MIB, device="cuda")
    for work in (
        lambda: x + 1,
        lambda: x.sum(),
        lambda: x * 2 + 1,
        lambda: x.add_(1),
        lambda: x.clone(),
        lambda: x.reshape(2, -1).t().contiguous(),
        lambda: x.double(),
        lambda: x > 0,
        lambda: torch.cat([x, x]),
        lambda: x.softmax(0),
        lambda: torch.relu(x),
    ):
        clean()
        base = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        y = work()
        out.append([torch.cuda.max_memory_allocated() - base, torch.cuda.memory_allocated() - base])
        del y
    return out
