"""The ledger: sizes, pools, peaks, snapshots, limits; what a program can see of CUDA's allocator."""

from __future__ import annotations

from .harness import run


def test_rounding_pools_and_caching() -> None:
    run("""
        MIB = 1 << 20
        def stat(name):
            value = native.memory_stats(0)
            for part in name.split("."): value = value[part]
            return value
        def make(n): return torch.empty(n, dtype=torch.uint8, device="cuda")
        assert stat("reserved_bytes.all.current") == 0
        a = make(1)
        assert stat("allocated_bytes.all.current") == 512 and stat("requested_bytes.all.current") == 1
        b = make(513)
        assert stat("allocated_bytes.all.current") == 1536 and stat("allocation.small_pool.current") == 2
        assert stat("reserved_bytes.all.current") == 2 * MIB and b.data_ptr() - a.data_ptr() == 512
        assert stat("inactive_split_bytes.all.current") == 2 * MIB - 1536
        c = make(MIB + 1)
        assert stat("reserved_bytes.large_pool.current") == 20 * MIB and stat("allocation.large_pool.current") == 1
        d = make(32 * MIB + 1)
        assert stat("reserved_bytes.large_pool.current") == 54 * MIB
        assert stat("segment.all.current") == 3 and make(0).data_ptr() == 0
        where = d.data_ptr()
        del d
        assert stat("reserved_bytes.large_pool.current") == 54 * MIB
        d = make(32 * MIB)
        assert d.data_ptr() == where
        del a, b, c, d
        assert stat("allocated_bytes.all.current") == stat("inactive_split_bytes.all.current") == 0
        assert stat("allocated_bytes.all.peak") == 1536 + MIB + 512 + 32 * MIB + 512
        free, total = native.mem_info(0)
        assert total - free == stat("reserved_bytes.all.current")
        native.empty_cache()
        assert stat("reserved_bytes.all.current") == 0 and native.mem_info(0) == (total, total)
        native.reset_peak_stats(0)
        native.reset_accumulated_stats(0)
        assert stat("allocated_bytes.all") == {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    """)


def test_results_and_temporaries_are_counted() -> None:
    run("""
        x = torch.ones(1 << 20, device="cuda")
        before = native.memory_allocated(0)
        y = x * 2
        assert native.memory_allocated(0) - before == 4 << 20
        native.reset_peak_stats(0)
        x.add_(1).mul_(2)
        assert native.memory_stats(0)["allocated_bytes"]["all"]["peak"] == native.memory_allocated(0)
        torch.softmax(x.view(1024, 1024).half(), -1)
        s = x.sort()  # values, indices
        assert native.memory_allocated(0) - before == (4 + 4 + 8) << 20
        del y, s
        assert native.memory_allocated(0) == before
        host = torch.ones(1 << 20) * 2
        assert native.memory_allocated(0) == before
        import weakref
        r = weakref.ref(x)
        del x
        assert r() is None and native.memory_allocated(0) == 0
    """)


def test_out_of_memory() -> None:
    run(
        """
        try:
            torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError as error:
            message = str(error)
        assert message.startswith(
            "CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity of 256.00 MiB of which "
            "256.00 MiB is free. "), message
        assert "is reserved by PyTorch but unallocated" in message
        assert native.memory_stats(0)["num_ooms"] == 1
        kept = [torch.empty(60 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
        try:
            kept[0] + 1  # a result, not a request of the program's own
        except torch.OutOfMemoryError:
            pass
        else:
            raise AssertionError
        del kept[1:]
        # cached blocks give way before the program is told
        big = torch.empty(150 << 20, dtype=torch.uint8, device="cuda")
        assert native.memory_stats(0)["num_alloc_retries"] == 1
        del big, kept
        assert native.memory_allocated(0) == 0 and (torch.ones(3, device="cuda") + 1).sum() == 6
        native.empty_cache()
        native.set_fraction(0.5, 0)
        try:
            torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            assert "128.00 MiB allowed; " in str(error), error
        else:
            raise AssertionError
        try:
            torch.empty((1 << 60) + 1024, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            assert str(error).startswith("CUDA out of memory. Tried to allocate more than 1EB memory.")
    """,
        setup="native = use_cuda(memory=256 << 20)",
    )


def test_snapshot_and_history() -> None:
    run("""
        import pickle
        native.record_history("all", lambda: [{"filename": "f.py", "name": "main", "line": 1}], 1000, False)
        x = torch.empty(2 << 20, dtype=torch.uint8, device="cuda")
        y = torch.empty(100, device="cuda")
        address = x.data_ptr()
        snapshot = native.snapshot()
        segments = snapshot["segments"]
        assert sorted(s["segment_type"] for s in segments) == ["large", "small"]
        assert sum(s["allocated_size"] for s in segments) == native.memory_allocated(0)
        for s in segments:
            assert sum(b["size"] for b in s["blocks"]) == s["total_size"]
            assert s["blocks"][0]["address"] == s["address"] and s["frames"][0]["name"] == "main"
        block = next(b for s in segments for b in s["blocks"] if b["address"] == address)
        assert block["state"] == "active_allocated" and block["requested_size"] == 2 << 20
        del x
        native.empty_cache()
        try:
            torch.empty(1 << 50, device="cuda")
        except torch.OutOfMemoryError:
            pass
        actions = [t["action"] for t in native.snapshot()["device_traces"][0]]
        assert actions == ["segment_alloc", "alloc", "segment_alloc", "alloc", "snapshot", "free_requested",
                           "free_completed", "segment_free", "oom", "snapshot"], actions
        from torch.cuda import _memory_viz
        assert _memory_viz.segsum(native.snapshot())
        assert _memory_viz.trace_plot(pickle.loads(pickle.dumps(native.snapshot())))
        native.record_history(None)
        assert not native.history_enabled() and native.snapshot()["device_traces"] == [[]]
    """)


def test_raw_memory_streams_and_pools() -> None:
    run("""
        p = native.raw_alloc(4096, 0, 0)
        assert native.memory_allocated(0) == 4096 and native.device_of_address(p) == 0
        native.raw_delete(p)
        for bad in (p, 12345):
            try:
                native.raw_delete(bad)
            except RuntimeError as error:
                assert "invalid device pointer" in str(error)
            else:
                raise AssertionError
        assert native.memory_allocated(0) == 0 and native.device_of_address(12345) == -1
        # memory used on another stream stays taken while that stream is busy
        stream = torch.Stream("cuda")
        x = torch.ones(1000, device="cuda")
        with stream:
            native.sleep(300_000_000)
        x.record_stream(stream)
        at = x.data_ptr()
        del x
        stats = native.memory_stats(0)
        assert stats["allocated_bytes"]["all"]["current"] == 0 and stats["active_bytes"]["all"]["current"] == 4096
        assert torch.ones(1000, device="cuda").data_ptr() != at
        native.synchronize(0)
        assert torch.ones(1000, device="cuda").data_ptr() == at
        native.pool_begin(0, 0, 7)
        inside = torch.ones(4, device="cuda")
        native.pool_end(0, 0, 7)
        outside = torch.ones(4, device="cuda")
        pools = {s["segment_pool_id"] for s in native.snapshot()["segments"]}
        assert pools == {(0, 0), (0, 7)} and native.pool_use_count(0, 0, 7) == 1
        del inside
        native.pool_release(0, 0, 7)
        assert {s["segment_pool_id"] for s in native.snapshot()["segments"]} == {(0, 0)}
    """)


def test_pinned_memory() -> None:
    run("""
        x = torch.ones(1000).pin_memory()
        assert x.is_pinned() and not torch.ones(3).is_pinned() and x[10:].is_pinned()
        assert torch.empty(3, pin_memory=True).is_pinned()
        stats = native.host_stats()
        assert stats["allocation"]["current"] == 1 and stats["allocated_bytes"]["current"] == 4096
        assert x.cuda(non_blocking=True).sum() == 1000
        del x
        assert native.host_stats()["reserved_bytes"]["current"] > 0
        native.host_empty_cache()
        assert native.host_stats()["reserved_bytes"]["current"] == 0
        try:
            torch.ones(1, device="cuda").pin_memory()
        except RuntimeError as error:
            assert "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned" in str(error)
    """)
