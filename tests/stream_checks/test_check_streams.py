"""``--check-streams error`` raises where a synchronization is missing, and nowhere in the program with it."""

from __future__ import annotations

import contextlib
import mmap
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from harness import ChildConfig, child

if TYPE_CHECKING:
    import torch

CHECKED = ChildConfig("virtual checked", {"driver": "virtual", "check_streams": "error", "devices": 2})
SIZE = 4096


@contextlib.contextmanager
def race(*parts: str) -> Iterator[None]:
    """Expect an error at the last line of the block, whose message has these parts."""
    from torchdevice_cuda import StreamRaceError

    with pytest.raises(StreamRaceError) as caught:
        yield
    message = str(caught.value)
    raised = caught.traceback[1].lineno + 1
    assert f"{relative(raised)} " in message, message
    for part in parts:
        assert part in message, (part, message)


def line() -> int:
    """Return the line of the caller."""
    return sys._getframe(1).f_lineno


def new() -> torch.Tensor:
    """Return a tensor, after all earlier work: tests share a process."""
    import torch

    torch.cuda.synchronize()
    return torch.ones(SIZE, device="cuda")


# ------------------------------------------------------------------------------------ streams
@child(CHECKED)
@pytest.mark.parametrize("waits", [True, False])
def test_a_stream_that_does_not_wait(waits: bool) -> None:
    import torch

    side = torch.cuda.Stream()
    x = new() * 2
    written = line() - 1
    if waits:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x + 1
        return
    with torch.cuda.stream(side), race(f":{written} may still be writing it", f"float32[{SIZE}]", "wait_stream"):
        x + 1


@child(CHECKED)
@pytest.mark.parametrize("waits", [True, False])
def test_a_stream_that_is_not_waited_for(waits: bool) -> None:
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x = new()
    if waits:
        torch.cuda.current_stream().wait_stream(side)
        x.sum()
        return
    with race("the default stream", "aten::sum"):
        x.sum()


@child(CHECKED)
@pytest.mark.parametrize("late", [True, False])
def test_an_event_that_is_recorded_too_early(late: bool) -> None:
    import torch

    side, event = torch.cuda.Stream(), torch.cuda.Event()
    x = new()
    if not late:
        event.record()
    x.mul_(2)
    if late:
        event.record()
    side.wait_event(event)
    if late:
        with torch.cuda.stream(side):
            x + 1
        return
    with torch.cuda.stream(side), race("It waits for earlier work of the default stream"):
        x + 1


@child(CHECKED)
def test_reads_on_two_streams_need_no_order() -> None:
    import torch

    x = new()
    torch.cuda.synchronize()
    for side in (torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(side):
            x + 1
    with race("reading"):
        x.zero_()


@child(CHECKED)
def test_parts_of_a_tensor_that_do_not_overlap() -> None:
    import torch

    side = torch.cuda.Stream()
    x = new().reshape(64, 64)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x[:, 0].add_(1)
        x[1:, 2:4] += 1
        x[0, ::2].copy_(x[0, ::2] + 1)
    x[:, 1].add_(1)
    x[1:, 4:] += 1
    x[0, 5::2].zero_()
    with race("float32[64]"):
        x[3].zero_()


@child(CHECKED)
def test_a_stream_of_another_device() -> None:
    import torch

    x = new()
    there = x.to("cuda:1", non_blocking=True)  # orders both devices' streams
    there.add_(1)
    side = torch.cuda.Stream("cuda:1")
    with torch.cuda.stream(side), race("cuda:1"):
        there.mul_(2)


# --------------------------------------------------------------------------------------- host
@child(CHECKED)
@pytest.mark.parametrize("wait", ["stream", "event", "device", "query"])
def test_the_host_waits_for_a_copy(wait: str) -> None:
    import torch

    event = torch.cuda.Event()
    host = new().to("cpu", non_blocking=True)
    event.record()
    if wait == "stream":
        torch.cuda.current_stream().synchronize()
    elif wait == "event":
        event.synchronize()
    elif wait == "device":
        torch.cuda.synchronize()
    else:
        while not event.query():
            pass
    assert host.sum() == SIZE


@child(CHECKED)
def test_the_host_reads_too_early() -> None:
    host = new().to("cpu", non_blocking=True)
    copied = line() - 1
    with race(f":{copied} may still be writing it", "the host", "event.synchronize()"):
        host.sum()


@child(CHECKED)
def test_the_host_writes_too_early() -> None:
    import torch

    host = torch.ones(SIZE).pin_memory()
    new().copy_(host, non_blocking=True)
    with race("still be reading it"):
        host.fill_(2)


@child(CHECKED)
def test_copies_that_wait_by_themselves() -> None:
    import torch

    x = new()
    pageable = torch.empty(SIZE)
    x.copy_(torch.zeros(SIZE), non_blocking=True)
    pageable.copy_(x, non_blocking=True)
    assert pageable.sum() == 0
    pinned = torch.empty(SIZE, pin_memory=True)
    pinned.copy_(x)
    assert pinned.sum() == 0
    assert x.sum().item() == 0


# --------------------------------------------------------------------------------- freed memory
@child(CHECKED)
@pytest.mark.parametrize("how", ["record_stream", "wait_stream", "nothing"])
def test_memory_that_another_stream_still_uses(how: str) -> None:
    import torch

    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    x = torch.ones(1 << 20, device="cuda")
    allocated = line() - 1
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
        if how == "record_stream":
            x.record_stream(side)
    used = line() - 3
    if how == "wait_stream":
        torch.cuda.current_stream().wait_stream(side)
    del x
    freed = line() - 1
    if how == "nothing":
        with race(f":{used} may still be reading", f"allocated at {relative(allocated)} and freed at", f":{freed}"):
            torch.zeros(1 << 20, device="cuda")
    else:
        torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    assert y.sum().item() == 2 << 20


def relative(number: int) -> str:
    from torchdevice_cuda.races.findings import _name_line

    return _name_line((__file__, number))


# ------------------------------------------------------------------------------------- autograd
@child(CHECKED)
def test_autograd_orders_its_streams() -> None:
    import torch

    side = torch.cuda.Stream()
    w = new().requires_grad_()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = (w * 2).square()
    torch.cuda.current_stream().wait_stream(side)
    (y.sum() + (w * 3).sum()).backward()
    assert w.grad is not None
    assert w.grad.sum().item() == 11 * SIZE


@child(CHECKED)
def test_gradients_on_a_stream_that_does_not_wait() -> None:
    import torch

    w = new().requires_grad_()
    (w * 2).sum().backward()
    assert w.grad is not None
    with torch.cuda.stream(torch.cuda.Stream()), race("the backward pass"):
        w.grad.mul_(2)


# --------------------------------------------------------------------------------------- graphs
@child(CHECKED)
@pytest.mark.parametrize("waits", [True, False])
def test_the_input_of_a_graph(waits: bool) -> None:
    import torch

    static, side, graph = new(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static * 2
    graph.replay()
    if waits:
        side.wait_stream(torch.cuda.current_stream())
    launched = line() - 3
    with torch.cuda.stream(side):
        if waits:
            static.fill_(3)
            return
        with race(f":{launched} may still be reading", "aten::mul of a graph"):
            static.fill_(3)


@child(CHECKED)
def test_streams_within_a_graph() -> None:
    import torch

    x, side, graph = new(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y.add_(1)
        with race("aten::mul_"):
            y.mul_(3)
        torch.cuda.current_stream().wait_stream(side)
        y.sub_(1)
    graph.replay()


@child(CHECKED)
@pytest.mark.parametrize("waits", [True, False])
def test_the_host_reads_what_a_graph_copies(waits: bool) -> None:
    import torch

    x, back, graph = new(), torch.zeros(SIZE).pin_memory(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        back.copy_(x * 2, non_blocking=True)
    graph.replay()
    if waits:
        torch.cuda.synchronize()
        assert back.tolist()[0] == 2
        return
    launched = line() - 5
    with race(f":{launched} may still be writing it (aten::copy_ of a graph"):
        back.tolist()
    torch.cuda.synchronize()


@child(CHECKED)
def test_numbers_that_a_graph_takes_by_value() -> None:
    """Memory of the host that is not pinned belongs to the program alone, whatever a graph has read of it."""
    import torch

    memory = mmap.mmap(-1, mmap.PAGESIZE)
    number = torch.frombuffer(memory, dtype=torch.float32, count=1)[0]
    x = torch.zeros(SIZE, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(number)
    graph.replay()
    memory[:4] = b"1234"
    assert x.sum().item() == 0


# ------------------------------------------------------------------------------ host operators
@child(CHECKED)
def test_operators_of_the_host_that_are_composites() -> None:
    import torch

    host = new().to("cpu", non_blocking=True)
    with race("aten::copy_"):
        host.clone()
    host = new().to("cpu", non_blocking=True)
    host.view(64, 64).t()[1:].detach()  # reads no elements
    assert torch.empty_like(host).shape == host.shape
    assert host.is_pinned()
    torch.cuda.synchronize()


@child(CHECKED)
def test_accesses_of_the_host_without_operators() -> None:
    import torch

    host = torch.zeros(SIZE).pin_memory()
    array = host.numpy()
    x = new()
    host.copy_(x, non_blocking=True)
    with race("memory access on the host", f"float32[{SIZE}]"):
        array.sum()
    host.copy_(x, non_blocking=True)
    with race("reads"):
        host.tolist()
    torch.cuda.synchronize()
    x.copy_(host, non_blocking=True)
    assert array[0] == 1  # both read
    with race("writes"):
        array.fill(2)
    torch.cuda.synchronize()
    array[0] = 3
    assert host[0] == 3


@child(CHECKED)
def test_copies_that_are_ordered_by_their_stream() -> None:
    """Large enough for several threads, which copy into pages that the first copy has protected."""
    import torch

    x = torch.ones(1 << 20, device="cuda")
    host = torch.empty(1 << 20, pin_memory=True)
    for _ in range(2):
        host.copy_(x, non_blocking=True)
        x.copy_(host, non_blocking=True)
        x.copy_(host)
    host.copy_(x, non_blocking=True)
    host.copy_(x)
    assert host.sum() == 1 << 20


@child(CHECKED)
def test_other_faults_stay_fatal() -> None:
    import os
    import signal
    import subprocess
    import sys

    code = (
        "import torch, ctypes, torchdevice_cuda\n"
        "host = torch.ones(4, device='cuda').to('cpu', non_blocking=True)\n"
        "ctypes.string_at(8)"
    )
    command = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "--check-streams", "error", "-c", code]
    assert subprocess.run(command, env=dict(os.environ), check=False).returncode == -signal.SIGSEGV


# -------------------------------------------------------------------------------- compiled code
@pytest.mark.slow
@child(CHECKED)
@pytest.mark.parametrize("waits", [True, False])
def test_compiled_code(waits: bool) -> None:
    import torch

    from torchdevice_cuda import StreamRaceError

    compiled = torch.compile(lambda x: (x * 2 + 1).relu())
    x, side = new(), torch.cuda.Stream()
    if waits:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        if not waits:
            with pytest.raises(StreamRaceError, match="code outside of operators"):
                compiled(x)
            return
        y = compiled(x)
    with race("may still be writing it (code outside of operators"):
        y.sum()


# ------------------------------------------------------------------------------------ threads
@child(CHECKED)
def test_threads_that_allocate_do_not_wait_for_each_other() -> None:
    """The memory's lock is held where blocks are reported to the detector, and not taken while it holds its own."""
    import threading

    x = new()

    def work() -> None:
        for _ in range(3000):
            x + 1

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
