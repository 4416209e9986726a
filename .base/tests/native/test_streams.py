"""Streams and events on the host timeline."""

from __future__ import annotations

from .harness import run


def test_streams_and_events() -> None:
    run("""
        import threading, time
        assert len({native.stream_new(0, 0) for _ in range(100)}) == 32
        assert native.stream_priority(0, native.stream_new(0, -1)) == -1 and native.stream_current(0) == 0
        assert native.stream_handle(0, 0) == 0 and native.stream_handle(0, native.stream_new(0, 0)) % 2 == 0
        low, high = native.stream_priority_range()
        assert low == 0 and high < 0
        s, other = torch.Stream("cuda"), torch.Stream("cuda")
        with s:
            assert native.stream_current(0) == s.stream_id
            seen = []
            thread = threading.Thread(target=lambda: seen.append(native.stream_current(0)))
            thread.start(); thread.join()
            assert seen == [0]
            native.sleep(150_000_000)  # a tenth of a second
        assert native.stream_current(0) == 0
        assert not s.query() and other.query()
        event = s.record_event()
        other.wait_event(event)
        assert not event.query() and not other.query()
        started = time.perf_counter()
        other.synchronize()
        assert time.perf_counter() - started > 0.05 and event.query() and s.query()
        a, b = torch.Event("cuda", enable_timing=True), torch.Event("cuda", enable_timing=True)
        a.record()
        native.sleep(30_000_000)
        b.record()
        b.synchronize()
        assert 20 <= a.elapsed_time(b) < 25
        e = native.Event()
        assert not e.recorded and e.query()
        e.record(0, 0)
        assert e.recorded and e.handle
        # reading a value back waits for the work in front of it
        native.sleep(75_000_000)
        started = time.perf_counter()
        torch.ones(1, device="cuda").item()
        assert time.perf_counter() - started > 0.03
        # a handle names the stream it came from
        assert native.stream_query(0, native.stream_handle(0, s.stream_id))
    """)


def test_invalid_ordinals() -> None:
    run(
        """
        for f in (lambda: torch.empty(1, device="cuda:7"), lambda: native.set_device(7), lambda: native.mem_info(7),
                  lambda: native.synchronize(9), lambda: torch.zeros(1).to("cuda:3"), lambda: torch.Stream("cuda:9")):
            try:
                f()
            except torch.AcceleratorError as error:
                assert str(error).splitlines()[0] == "CUDA error: invalid device ordinal" and error.error_code == 101
            else:
                raise AssertionError
        assert native.get_device() == 0 and torch.zeros(1, device="cuda").item() == 0
        try:
            native.memory_stats(99)
        except torch.AcceleratorError:
            raise
        except RuntimeError as error:
            assert "Invalid device argument 99" in str(error)
    """,
        setup="native = use_cuda(2)",
    )
