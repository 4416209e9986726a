"""CUDA's events in several processes, how processes end that share something, and what other drivers send."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, child, run_forked
from torch import nn

from .peer import SPAWN, Failed, peer

PROGRAMS = Path(__file__).parent / "programs"
KEPT: dict[str, Any] = {}
SLEEP = 600_000_000  # cycles: some 400 ms
shared = child(VIRTUAL.with_settings(devices=2))


# ----------------------------------------------------------------- for the other process
def watch(event: torch.cuda.Event) -> tuple[bool, float, str]:
    begun, done = time.monotonic(), event.query()
    event.synchronize()
    return done, time.monotonic() - begun, str(event.device)


def open_and_record(handle: bytes, device: int) -> bool:
    event = torch.cuda.Event.from_ipc_handle(device, handle)
    with torch.cuda.device(device):
        torch.cuda._sleep(SLEEP)
        event.record()
    return event.query()


def make_event(kept: bool) -> bytes:
    event = torch.cuda.Event(interprocess=True)
    event.record()
    if kept:
        KEPT["event"] = event
    return event.ipc_handle()


def use(event: torch.cuda.Event, what: str) -> Any:
    return getattr(event, what)(*([event] if what == "elapsed_time" else []))


def wait_on_stream(event: torch.cuda.Event) -> tuple[bool, bool]:
    stream = torch.cuda.Stream()
    idle = stream.query()
    stream.wait_event(event)
    return idle, stream.query()


def to_cuda_and_add(x: torch.Tensor) -> tuple[list[float], bool]:
    there = x.cuda()
    there.data.add_(1)
    return x.tolist(), there is x


# ----------------------------------------------------------------------------- the tests
@shared
def test_an_event_is_watched_from_elsewhere() -> None:
    for device in (0, 1):
        with torch.cuda.device(device):
            event = torch.cuda.Event(interprocess=True)
            assert peer()(watch, event)[0]  # it is not recorded yet: there is nothing to wait for
            torch.cuda._sleep(SLEEP)
            event.record()
        done, waited, where = peer()(watch, event)
        assert (done, where) == (False, f"cuda:{device}")
        assert waited > 0.1
        assert event.query()


@shared
def test_a_stream_waits_for_an_event_of_another_process() -> None:
    event = torch.cuda.Event(interprocess=True)
    torch.cuda._sleep(SLEEP)
    event.record()
    assert peer()(wait_on_stream, event) == (True, False)


@shared
def test_the_other_process_records_it() -> None:
    event = torch.cuda.Event(interprocess=True)
    handle = event.ipc_handle()
    assert event.query()
    begun = time.monotonic()
    assert peer()(open_and_record, handle, 0) is False
    assert not event.query()
    event.synchronize()
    assert time.monotonic() - begun > 0.1


def _words(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(error.value).split("\n", 1)[0]


@shared
def test_handles_of_events_that_lead_nowhere() -> None:
    event = torch.cuda.Event(interprocess=True)
    opened = torch.cuda.Event.from_ipc_handle
    tries = {
        "CUDA error: invalid device context": lambda: opened(0, event.ipc_handle()),
        "CUDA error: mapping of buffer object failed": lambda: opened(0, b"q" * 64),
        "CUDA error: invalid resource handle": lambda: torch.cuda.Event().ipc_handle(),
        "CUDA error: invalid argument": lambda: torch.cuda.Event(enable_timing=True, interprocess=True).ipc_handle(),
        "Event can only be created on CUDA devices, but got device type cpu": lambda: opened("cpu", b"q" * 64),
        "cudaIpcEventHandle_t expects byte-like object of size 64, but got 3": lambda: opened(0, "qqq"),
    }
    for words, attempt in tries.items():
        with pytest.raises(RuntimeError) as error:
            attempt()
        assert _words(error) == words
    assert len(event.ipc_handle()) == 64
    assert str(event.device) == "cuda:0"
    with pytest.raises(Failed, match="invalid resource handle"):
        peer()(use, event, "ipc_handle")
    with pytest.raises(Failed, match="Both events must be created with argument 'enable_timing=True'"):
        peer()(use, event, "elapsed_time")


@shared
def test_an_event_that_is_gone_is_no_other_event() -> None:
    assert torch.cuda.Event.from_ipc_handle(0, peer()(make_event, True)).query()
    gone = peer()(make_event, False)
    for _ in range(3):
        peer()(make_event, True)
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        torch.cuda.Event.from_ipc_handle(0, gone)


@pytest.mark.native
@pytest.mark.parametrize(("receiver", "warns"), [("nobody", True), ("other", False)])
def test_a_sender_that_ends_first_says_so(receiver: str, warns: bool) -> None:
    done = run_forked("-m", "torchdevice_cuda", "--driver", "virtual", str(PROGRAMS / "ends_first.py"), receiver)
    assert done.status == 0, done
    assert ("Producer process has been terminated before all shared CUDA tensors released" in done.err) is warns, done


@pytest.mark.native
def test_a_crash_is_still_one() -> None:
    """The handler of writes into a moving segment passes all other faults on to the previous handler."""
    done = run_forked("-m", "torchdevice_cuda", "--driver", "virtual", PROGRAMS / "crashes.py", check=False)
    assert done.status in (-signal.SIGSEGV, 128 + signal.SIGSEGV), done
    assert done.err.count("Fatal Python error: Segmentation fault") == 1, done


@child(CPU)
def test_sent_tensors_are_on_cuda_and_not_copied() -> None:
    x = torch.ones(3, device="cuda")
    assert peer()(to_cuda_and_add, x) == ([2.0] * 3, True)
    assert x.tolist() == [2.0] * 3
    parameter = nn.Linear(2, 1).cuda().bias
    before = parameter.item()
    assert peer()(to_cuda_and_add, parameter)[1] is True
    assert parameter.item() == pytest.approx(before + 1)
    assert peer()(to_cuda_and_add, torch.ones(1)) == ([1.0], False)


@child(VIRTUAL.with_settings(devices=2), CPU, MPS_FAITHFUL)
def test_the_receiver_of_an_unsendable_tensor_gets_an_error() -> None:
    queue = SPAWN.Queue()
    queue.put(torch.ones(2, device="cuda", requires_grad=True) * 2)
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        queue.get(timeout=20)
    queue.put(1)
    assert queue.get(timeout=20) == 1


def twice(x: torch.Tensor) -> tuple[torch.Tensor, str]:
    return x * 2, str(x.device)


@child(CPU, MPS_FAITHFUL)
def test_other_drivers_send_them_through_the_host(place: Any) -> None:
    y, device = peer()(twice, torch.ones(3, device="cuda"))
    assert y.tolist() == [2.0] * 3
    assert device == str(y.device) == ("cpu" if place.driver == "cpu" else "cuda:0")
