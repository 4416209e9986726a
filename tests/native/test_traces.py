"""Events for listeners of the device: ``torch.cuda._gpu_trace``, and the sanitizer, which uses it."""

from __future__ import annotations

import pytest
import torch
from harness import VIRTUAL, child
from torch.cuda import _gpu_trace

pytestmark = child(VIRTUAL, alone=True)

KINDS = tuple(name.removeprefix("register_callback_for_") for name in dir(_gpu_trace) if name.startswith("register_"))


def _listen() -> list[tuple[str, tuple[int, ...]]]:
    heard: list[tuple[str, tuple[int, ...]]] = []
    torch._C._activate_gpu_trace()
    for kind in KINDS:
        register = getattr(_gpu_trace, f"register_callback_for_{kind}")
        register(lambda *what, kind=kind: heard.append((kind, what)))
    return heard


def test_everything_is_told_in_its_order() -> None:
    heard = _listen()
    x = torch.empty(10, device="cuda")
    address = x.data_ptr()
    event, other = torch.cuda.Event(), torch.cuda.Stream()
    streams = [what for kind, what in heard if kind == "stream_creation"]
    assert (other.cuda_stream,) in streams
    heard[:] = [entry for entry in heard if entry[0] != "stream_creation"]
    event.record()
    handle = event.cuda_event
    event.wait(other)
    event.synchronize()
    other.synchronize()
    torch.cuda.synchronize()
    del event, x
    assert heard == [
        ("memory_allocation", (address,)),
        ("event_creation", (handle,)),
        ("event_record", (handle, 0)),
        ("event_wait", (handle, other.cuda_stream)),
        ("event_synchronization", (handle,)),
        ("stream_synchronization", (other.cuda_stream,)),
        ("device_synchronization", ()),
        ("event_deletion", (handle,)),
        ("memory_deallocation", (address,)),
    ]


def test_synchronization_is_reported() -> None:
    x = torch.ones(3, device="cuda")
    heard = _listen()
    x.nonzero(), x.cpu(), x.sum().item()
    assert [what for kind, what in heard if kind == "stream_synchronization"] == [(0,)] * 3


def test_the_sanitizer_finds_a_race() -> None:
    import torch.cuda._sanitizer as sanitizer

    sanitizer.enable_cuda_sanitizer()
    x, other = torch.ones(4, device="cuda"), torch.cuda.Stream()
    with torch.cuda.stream(other):
        other.wait_stream(torch.cuda.default_stream())
        x.mul_(2)
    with pytest.raises(sanitizer.CUDASanitizerErrors):
        x.add_(1)
    torch.cuda.current_stream().wait_stream(other)
    assert (x + 1).shape == (4,)
