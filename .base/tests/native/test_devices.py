"""Several virtual GPUs: each has its own memory, current device is per thread, copies between them are real."""

from __future__ import annotations

import pytest

from .harness import run

CHURN = """
    import random, threading, time, resource
    def work(seed, seconds):
        rng = random.Random(seed)
        kept = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            native.set_device(rng.randrange(4))
            n = rng.choice([1, 100, 5000, 300_000, 600_000])
            x = torch.full((n,), float(seed), device="cuda")
            assert x.get_device() == native.get_device()
            y = x.to(f"cuda:{rng.randrange(4)}")
            y += 1
            if rng.random() < 0.3: kept.append((y, seed + 1))
            if len(kept) > 20:
                z, expected = kept.pop(rng.randrange(len(kept)))
                assert z[0].item() == expected and z[-1].item() == expected
        for z, expected in kept: assert (z == expected).all()
    def churn(seconds):
        failures = []
        def guarded(seed):
            try: work(seed, seconds)
            except BaseException as error: failures.append(error)
        threads = [threading.Thread(target=guarded, args=(i,)) for i in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not failures, failures
        for i in range(4):
            stats = native.memory_stats(i)
            for name in ("allocation", "allocated_bytes", "active", "active_bytes", "requested_bytes", "inactive_split",
                         "inactive_split_bytes"):
                for pool in ("all", "small_pool", "large_pool"):
                    assert stats[name][pool]["current"] == 0, (i, name, pool)
        native.empty_cache()
        assert all(native.memory_stats(i)["reserved_bytes"]["all"]["current"] == 0 for i in range(4))
        with open("/proc/self/statm") as f: return int(f.read().split()[1]) * 4096
"""


def test_devices_are_separate() -> None:
    run(
        """
        x = torch.ones(1000, device="cuda:2")
        assert [native.memory_allocated(i) for i in range(4)] == [0, 0, 4096, 0]
        native.set_device(3)
        assert torch.ones(1, device="cuda").get_device() == 3 and native.exchange_device(1) == 3
        with torch.device("cuda:2"):
            assert torch.zeros(1).get_device() == 2
        y = x.to("cuda:1")
        assert y.data_ptr() != x.data_ptr() and (x * 2).get_device() == 2 and y.sum().item() == 1000
        import threading
        seen = []
        t = threading.Thread(target=lambda: seen.append(native.get_device()))
        t.start(); t.join()
        assert seen == [0] and native.get_device() == 1
        first, second = torch.nn.Linear(4, 4).to("cuda:0"), torch.nn.Linear(4, 2).to("cuda:1")
        out = second(first(torch.ones(3, 4, device="cuda:0")).to("cuda:1"))
        out.sum().backward()
        assert first.weight.grad.get_device() == 0 and second.weight.grad.get_device() == 1
    """,
        setup="native = use_cuda(4)",
    )


def test_threads() -> None:
    run(CHURN + "    churn(4)\n", setup="native = use_cuda(4, 2 * GIB)")


@pytest.mark.slow
def test_threads_for_half_a_minute_do_not_leak() -> None:
    run(
        CHURN
        + """
    first = churn(8)
    last = churn(30)
    assert last - first < 64 << 20, (first, last)
    """,
        setup="native = use_cuda(4, 2 * GIB)",
        timeout=180,
    )
