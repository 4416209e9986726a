"""Green contexts: which stream is current, what is refused, and in whose words; as an H200 answered."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from harness import CPU, MPS, VIRTUAL, child

from torchdevice_cuda._compat import torch_release

from .answers import error

PLACES = (CPU, VIRTUAL.with_settings(gpu="h200"), MPS)
RELEASE = torch_release(torch.__version__)
NOT_POPPED = "expected popped context to be the current ctx"
bound = pytest.mark.skipif(not (2, 10) <= RELEASE < (2, 14), reason="made by torch's own bindings from 2.10 to 2.13")


def created(size: Any, device: Any = None) -> Any:
    """Return a context, in the way of the release."""
    create: Any = torch.cuda.GreenContext.create
    return create(num_sms=size, device_id=device) if RELEASE >= (2, 12) else create(size, device)


def whole() -> int:
    """Return the device's number of multiprocessors."""
    return torch.cuda.get_device_properties(0).multi_processor_count


@bound
@child(*PLACES)
def test_allowed_numbers_of_multiprocessors() -> None:
    assert torch.cuda.green_contexts.SUPPORTED is True
    for size in (1, whole(), True):
        assert type(created(size)) is torch._C._CUDAGreenContext
    for size in (0, whole() + 1, 2**31):
        words = f"Invalid number of SMs requested for green context: {size} (device has {whole()} SMs)"
        assert error(lambda size=size: created(size)) == ("RuntimeError", words)
    for size in (-1, 1.5, "a", 2**32):
        kind, said = error(lambda size=size: created(size))
        assert kind == "TypeError" and said.startswith("create(): incompatible function arguments."), said
    assert error(lambda: created(1, torch.cuda.device_count())) == (
        "RuntimeError",
        "CUDA driver error: invalid device ordinal",
    )
    assert error(torch.cuda.GreenContext) == ("TypeError", "GreenContext: No constructor defined!")
    assert error(torch._C._CUDAGreenContext)[1] == "torch._C._CUDAGreenContext: No constructor defined!"


@bound
@pytest.mark.skipif(RELEASE < (2, 12), reason="work queues are asked for since 2.12")
@child(CPU)
def test_work_queues_are_of_a_later_cuda() -> None:
    create = torch.cuda.GreenContext.create
    assert error(create)[1] == "At least one of num_sms or workqueue_scope must be specified"
    assert error(lambda: create(num_sms=1, workqueue_concurrency_limit=1))[1] == (
        "workqueue_concurrency_limit requires workqueue_scope to be set"
    )
    assert error(lambda: create(workqueue_scope="all"))[0] == "ValueError"
    assert error(lambda: create(workqueue_scope="balanced"))[1] == (
        "Workqueue configuration for green contexts requires CUDA 13.1+!"
    )
    assert error(torch.cuda.GreenContext.max_workqueue_concurrency)[1] == (
        "Workqueue configuration requires CUDA 13.1+!"
    )


@bound
@child(*PLACES)
def test_its_default_stream_is_current_and_then_the_one_before() -> None:
    context, stream = created(1), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        context.set_context()
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        x = torch.ones(1000, device="cuda")
        assert (x @ x).item() == 1000.0
        context.pop_context()
        back = torch.cuda.current_stream()
        # It comes back by its handle, which is of the same work, and is another stream to compare.
        assert back.cuda_stream == stream.cuda_stream
        assert back != stream
    context.set_context()
    context.pop_context()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@bound
@child(VIRTUAL)
def test_work_of_a_context_comes_after_the_work_before_it() -> None:
    context, stream = created(1), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        context.set_context()
        inside = torch.cuda.Event()
        inside.record()
        assert not inside.query()
        context.pop_context()
        inside.synchronize()
        assert stream.query()


@bound
@child(*PLACES)
def test_another_than_the_current_one_is_not_popped() -> None:
    first, second = created(1), created(1)
    assert NOT_POPPED in error(first.pop_context)[1]
    first.set_context()
    second.set_context()
    second.pop_context()
    first.pop_context()
    first.set_context()
    second.set_context()
    for context in (first, second, first):  # each takes one off, and finds that it was another's
        assert NOT_POPPED in error(context.pop_context)[1]
    first.set_context()
    told = []
    thread = threading.Thread(target=lambda: told.append(error(first.pop_context)))
    thread.start()
    thread.join()
    assert NOT_POPPED in told[0][1]
    first.pop_context()


@bound
@pytest.mark.skipif(RELEASE < (2, 11), reason="contexts have streams since 2.11")
@child(*PLACES)
def test_streams_of_a_context_come_in_turn() -> None:
    context = created(1)
    streams = [context.Stream() for _ in range(80)]
    assert type(streams[0]) is torch.cuda.ExternalStream
    handles = [stream.cuda_stream for stream in streams]
    number = len(set(handles))
    assert number == (32 if RELEASE >= (2, 12) else 16)
    assert handles == (handles[:number] * 80)[:80]
    assert streams[0].priority == 0 and streams[0].stream_id == handles[0]
    assert not set(handles) & {stream.cuda_stream for stream in (created(1).Stream(), torch.cuda.Stream())}
    with torch.cuda.stream(streams[0]):
        total = torch.ones(100, device="cuda").sum()
    torch.cuda.current_stream().wait_stream(streams[0])
    assert total.item() == 100.0


@pytest.mark.skipif(RELEASE < (2, 14), reason="made by torch's own bindings before")
@child(CPU)
def test_later_ones_are_refused_in_words() -> None:
    """They are made by NVIDIA's own library."""
    with pytest.raises(RuntimeError, match="'cpu' driver .* Use streams"):
        torch.cuda.GreenContext.create(num_sms=8)


@pytest.mark.skipif(not hasattr(torch.cuda.green_contexts, "SMPartition"), reason="torch 2.14 and older have none")
@child(CPU)
def test_a_device_has_one_part() -> None:
    """As a GPU whose memory has one domain; NVIDIA's driver is not asked."""
    contexts = torch.cuda.green_contexts
    assert contexts.get_num_locality_domains() == 1
    assert contexts.is_localization_supported() is False
    with pytest.raises(RuntimeError, match="Green contexts divide"):
        contexts.SMPartition.from_device()
