"""Threads: activation happens once, and each thread has a device and a stream of its own."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable

import pytest
from harness import CPU, MPS_FAITHFUL, STOCK, VIRTUAL, child

import torchdevice_cuda
from torchdevice_cuda.activation import ActivationError


def run_in_threads(count: int, work: Callable[[int], None]) -> None:
    """Let threads do some work; the first error of any is the caller's."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@child(CPU.with_settings(devices=4), alone=True)
def test_threads_keep_their_own_device_and_stream() -> None:
    """8 threads activate, query and switch for 5 s: no exception, nothing leaks from one thread to another."""
    import torch

    deadline, rounds = time.monotonic() + 5, [0] * 8

    def work(number: int) -> None:
        dice = random.Random(number)
        while time.monotonic() < deadline:
            torchdevice_cuda.activate(driver="cpu", devices=4)
            device = dice.randrange(4)
            torch.cuda.set_device(device)
            stream = torch.cuda.Stream(device=device)
            with torch.cuda.stream(stream):
                event = torch.cuda.Event(enable_timing=True)
                event.record()
                time.sleep(dice.random() / 1000)
                assert torch.cuda.current_device() == device
                assert torch.cuda.current_stream() == stream
                with torch.cuda.device((device + 1) % 4):
                    assert torch.cuda.current_device() == (device + 1) % 4
                    assert torch.cuda.current_stream() == torch.cuda.default_stream()
            assert torch.cuda.current_stream() == torch.cuda.default_stream(device)
            assert event.query()
            assert torch.cuda.memory_allocated() >= 0
            rounds[number] += 1

    run_in_threads(8, work)
    assert min(rounds) > 20


@child(STOCK, alone=True)
def test_threads_activate_at_once() -> None:
    """Threads that activate, some before and some while torch is imported, end with one activation."""
    barrier = threading.Barrier(8)

    def work(_: int) -> None:
        barrier.wait()
        torchdevice_cuda.activate(driver="cpu")
        import torch

        assert torch.cuda.is_available()
        assert torch.cuda.Stream().query()

    run_in_threads(8, work)


@child(STOCK, alone=True)
def test_activation_waits_for_a_torch_that_another_thread_is_importing() -> None:
    importer = threading.Thread(target=__import__, args=("torch",))
    importer.start()
    while "torch" not in sys.modules:
        time.sleep(0)
    assert not hasattr(sys.modules["torch"], "compile"), "torch is not complete yet"
    torchdevice_cuda.activate(driver="cpu")
    importer.join()
    import torch

    assert torchdevice_cuda.is_active()
    assert torch.cuda.is_available()
    assert torch.zeros(1, device="cuda").cuda().device.type == "cpu"


# ------------------------------------------------------------------------- deactivation
def adding(stop: threading.Event, failures: list[BaseException]) -> None:
    """Add tensors, as a worker of a CUDA program does."""
    import torch

    try:
        while not stop.is_set():
            (torch.randn(100, device="cuda") + 1).sum().item()
    except BaseException as error:
        failures.append(error)


def learning(stop: threading.Event, failures: list[BaseException]) -> None:
    import torch

    layer = torch.nn.Linear(8, 8).cuda()
    try:
        while not stop.is_set():
            layer(torch.ones(4, 8, device="cuda")).sum().backward()
    except BaseException as error:
        failures.append(error)


WORK = {"adding": adding, "learning": learning}


@child(CPU, VIRTUAL, MPS_FAITHFUL, alone=True)
@pytest.mark.parametrize("work", ["adding", "learning"])
def test_deactivation_refuses_under_threads_that_use_torch(work: str) -> None:
    import torch

    stop, failures = threading.Event(), list[BaseException]()
    threads = [threading.Thread(target=WORK[work], args=(stop, failures), name=f"worker {n}") for n in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        with pytest.raises(ActivationError, match=r"end them first: worker 0 \(in .*\), worker 1 \(in .*\), worker 2"):
            torchdevice_cuda.deactivate()
        time.sleep(0.01)
    assert torchdevice_cuda.is_active()
    assert torch.cuda.is_available()
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    torchdevice_cuda.deactivate()
    assert not torch.cuda.is_available()


@child(CPU, alone=True)
def test_deactivation_minds_no_thread_that_is_idle_or_does_something_else() -> None:
    """A pool whose workers have used torch, and a thread that waits."""
    from concurrent.futures import ThreadPoolExecutor

    import torch

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda n: torch.ones(n, device="cuda").sum().item(), range(1, 5))) == [1, 2, 3, 4]
        stop = threading.Event()
        waiting = threading.Thread(target=stop.wait)
        waiting.start()
        torchdevice_cuda.deactivate()
        assert not torch.cuda.is_available()
        stop.set()
        waiting.join()


@pytest.mark.slow
@child(CPU, alone=True)
def test_deactivation_minds_no_thread_of_the_compiler() -> None:
    import torch
    from torch._inductor.async_compile import AsyncCompile

    AsyncCompile.warm_pool()
    torchdevice_cuda.deactivate()
    assert not torch.cuda.is_available()
