"""Move accelerator tensors to the host's process group and back, on each kind of device.

A carrier lends tensors to the host, and turns the host's work into the work that the program waits for. ``finish`` runs
when the host is done: it writes the lent tensors.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

from .agreement import HEAD, RING, TEXT, CollectiveFingerprints

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work

    from ..native.interface import Native

Finish = Callable[[], None]
Tensors = Sequence[torch.Tensor]
#: torch's own methods, which are never redirected.
_to, _copy, _detach = (getattr(torch._C.TensorBase, name) for name in ("to", "copy_", "detach"))
_CPU = torch.device("cpu")
#: The numbers of streams that process groups use.
_streams = itertools.count()


def _settled(work: Work) -> bool:
    """Return whether its results exist. Callbacks of its future run before it counts as done, and may read them."""
    try:
        return bool(work.get_future().done())
    except RuntimeError:  # sends and receives have no future
        return bool(work.is_completed())


class Call(NamedTuple):
    """The host's work for one call of the program."""

    parts: list[Work]
    outputs: Tensors = ()
    #: the tensors lent for the outputs
    lent: Tensors = ()
    #: called when all parts are done
    finish: Finish | None = None
    #: whether it is done when another process reaches its call, so that waiting at the call could block forever
    arrives: bool = False
    #: of the group, with the reason of its failure
    agreement: CollectiveFingerprints | None = None
    #: what the work shows, if not the outputs
    results: Tensors | None = None

    @property
    def shown(self) -> Tensors:
        """Return what the work shows."""
        return self.outputs if self.results is None else self.results


class Group(Protocol):
    """The state of a process group that carriers need."""

    agreement: CollectiveFingerprints | None
    #: what was called since coalescing began
    coalesced: list[Any] | None
    #: the numbers of its streams: that of collectives, and those for each other rank
    streams: dict[int | None, int]


class Accesses(NamedTuple):
    """The program's tensors that a call accesses."""

    given: Tensors
    #: those that its work shows as results
    outputs: Tensors
    written: Tensors
    read: Tensors
    #: the other rank of a send or receive
    peer: int | None


class Carrier:
    """The carrier between accelerator and host, on a device without a compiled part."""

    def __init__(self) -> None:
        #: Works that may not be done, and whether each belongs to all ranks.
        self._begun: list[tuple[Work, bool]] = []

    def lend(self, tensors: Tensors) -> list[torch.Tensor]:
        """Return the tensors for the host; autograd does not record the host's operations on them."""
        raise NotImplementedError

    def wait_to_read(self, tensors: Tensors) -> None:
        """Wait until the host can read tensors, where work of their stream runs later."""

    def coalesce(self, change: int) -> None:
        """Add to the number of groups whose calls all go through Python."""

    def watch(self, backend: Any, agreement: CollectiveFingerprints) -> Callable[[], None]:
        """Also compare calls that bypass Python with the other ranks'; return the function that ends it."""
        return lambda: None

    def time(self, on: bool) -> None:
        """Set whether works measure their duration, if they can: Gloo's cannot."""

    def captures(self) -> bool:
        """Return whether a graph is being captured, on any stream."""
        return False

    def begin(self, tensors: Tensors, call: Callable[[], Any]) -> Any:
        """Return the work of a call with these tensors, as part of the graph if its stream is capturing."""
        return call()

    def is_observed(self) -> bool:
        """Return whether :meth:`defer` and :meth:`observe` act: the order of streams is checked, or changed."""
        return False

    def defer(self, group: Group, call: Callable[..., Any], handed: Sequence[Any], accesses: Accesses) -> Any:
        """Return the work of a call with arguments that runs later, or nothing if it has to run at once."""
        return None

    def observe(self, group: Group, work: Any, accesses: Accesses) -> None:
        """Report what a new work accesses."""

    def is_within_call(self) -> bool:
        """Return whether this thread runs a call that was issued before."""
        return False

    def join(self, group: Group, works: list[Any]) -> Any:
        """Return one work for all works since coalescing began."""
        return works[0] if len(works) == 1 else self.work(Call(works, arrives=True, agreement=group.agreement))

    def work(self, call: Call) -> Work:
        """Return work that is done when all parts are and ``finish`` has run; then the outputs have the lent values.

        It is done before this returns, except if it waits for another process: a thread does that.
        """
        return (_awaited if call.arrives else _done)(call)

    def complete(self, work: Any, agreement: CollectiveFingerprints | None) -> None:
        """Wait for the work of a synchronous call, if the program's wait would be Gloo's own."""

    def wait(self) -> None:
        """Wait for works that may not be done: a synchronization with the device waits for all of them."""
        begun, self._begun = self._begun, []
        for work, _ in begun:
            # A wait for the work itself raises its error.
            with contextlib.suppress(RuntimeError):
                if not _settled(work):
                    work.wait()

    def has_pending(self) -> bool:
        """Return whether collectives of all ranks are not done yet."""
        return any(is_of_all and not _settled(work) for work, is_of_all in self._begun)


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


class Aliased(Carrier):
    """The device is in host memory, under another name."""

    def __init__(self, native: Native) -> None:
        super().__init__()
        self.native = native

    def lend(self, tensors: Tensors) -> list[torch.Tensor]:
        """Return CPU tensors over the same memory, which they keep alive."""
        return self.native.alias_tensors(tensors)

    def wait_to_read(self, tensors: Tensors) -> None:
        """Report the current stream's read."""
        if self.native.is_observed():
            torch.ops.hostdevice_cuda.to_cpu.default(tensors)

    def coalesce(self, change: int) -> None:
        """Let Python handle all calls meanwhile."""
        self.native.count_coalescing(change)

    def watch(self, backend: Any, agreement: CollectiveFingerprints) -> Callable[[], None]:
        """Pass the memory to the compiled part, which compares calls there, too."""
        known = agreement
        place = (known.memory, known.address, known.rank, known.size, HEAD, known.stride, RING)
        known.group = self.native.watch_group(backend, *place, known.stride - TEXT, TEXT)
        return partial(self.native.forget_group, known.group)

    def time(self, on: bool) -> None:
        """Time the compiled part's work."""
        self.native.time_collectives(on)

    def captures(self) -> bool:
        """Return whether the compiled part is capturing."""
        return self.native.captures_underway()

    def begin(self, tensors: Tensors, call: Callable[[], Any]) -> Any:
        """Run a captured collective, so that all ranks take part; it is undone when the capture ends."""
        if not tensors:
            return call()
        device = tensors[0].get_device()
        if not self.native.begin_foreign_call(device, [_memory(tensor) for tensor in tensors]):
            return call()
        again = None
        try:
            work = call()
            work.wait()

            def again() -> None:
                call().wait()

        finally:
            self.native.end_foreign_call(device, again)
        return work

    def work(self, call: Call) -> Work:
        """Return the compiled part's work: it waits like the parts' own backend, and shows device tensors."""
        group = 0 if call.agreement is None else call.agreement.group
        made: Work = self.native.carried_work(call.parts, call.shown, call.finish, group, call.arrives)
        return made

    def is_observed(self) -> bool:
        """Return whether the compiled part has observers."""
        return self.native.is_observed()

    def number(self, group: Group, peer: int | None) -> int:
        """Return the number of the stream for a group's collectives, or for sends to one rank and receives from it."""
        if peer not in group.streams:
            group.streams[peer] = next(_streams)
        return group.streams[peer]

    def find_device(self, tensors: Tensors) -> int:
        """Return the device of a call with these tensors; a barrier has none."""
        return tensors[0].get_device() if tensors else self.native.get_device()

    def observe(self, group: Group, work: Any, accesses: Accesses) -> None:
        """Report accesses to the compiled part's observers."""
        self.native.observe_collective(
            work,
            self.find_device(accesses.given),
            self.number(group, accesses.peer),
            accesses.written,
            accesses.read,
            not accesses.given,
        )

    def has_pending(self) -> bool:
        """Return whether the compiled part has unfinished work."""
        return self.native.count_pending_collectives() > 0


class Same(Carrier):
    """The device is the CPU: tensors are on the host already."""

    def lend(self, tensors: Tensors) -> list[torch.Tensor]:
        """Return the tensors, detached from autograd."""
        return [_detach(tensor) for tensor in tensors]

    def work(self, call: Call) -> Work:
        """Return the host's own work if it is the only part; otherwise finish it before the call returns."""
        if len(call.parts) == 1 and call.finish is None:
            (part,) = call.parts
            self._begun = [one for one in self._begun if not one[0].is_completed()] + [(part, not call.arrives)]
            return part
        return super().work(call)

    def complete(self, work: Any, agreement: CollectiveFingerprints | None) -> None:
        """Wait here: signals do not end Gloo's own wait, and it does not know why the group has failed."""
        _wait(work, agreement)


class Copied(Carrier):
    """The device has separate memory."""

    def lend(self, tensors: Tensors) -> list[torch.Tensor]:
        """Return copies, with elements in the order of their memory."""
        return [_to(_detach(tensor), _CPU) for tensor in tensors]

    def work(self, call: Call) -> Work:
        """Return work that copies the results back."""

        def back() -> None:
            if call.finish is not None:
                call.finish()
            with torch.no_grad():
                for output, copy in zip(call.outputs, call.lent, strict=True):
                    _copy(output, copy)

        return super().work(call._replace(finish=back))


#: Time between checks of the program's signals during a wait.
_SLICE = timedelta(milliseconds=100)


def _wait(part: Work, agreement: CollectiveFingerprints | None) -> None:
    """Wait for a collective; Ctrl-C ends it, and an error gives the reason why the group has failed."""
    try:
        while True:
            try:
                part.wait(_SLICE)
                return
            except RuntimeError:
                if part.is_completed():
                    part.wait()  # raises its own error, if it has one
                    return
    except RuntimeError as error:
        raise (error if agreement is None else agreement.explain(error)) from None


def _done(call: Call) -> Work:
    from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]  # not in the stubs

    for part in call.parts:
        _wait(part, call.agreement)
    if call.finish is not None:
        call.finish()
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(list(call.shown))
    work: Work = _create_work_from_future(future)
    return work


def _awaited(call: Call) -> Work:
    from torch._C import _distributed_c10d as c10d

    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    done = threading.Event()

    def wait() -> None:
        try:
            for part in call.parts:
                part.wait()
            if call.finish is not None:
                call.finish()
            future.set_result(list(call.shown))
        except Exception as error:  # a wait for the work raises it
            if call.agreement is not None and isinstance(error, RuntimeError):
                error = call.agreement.explain(error)
            future.set_exception(error)  # type: ignore[arg-type]  # the stubs take it for a result
        done.set()

    threading.Thread(target=wait, name="torchdevice_cuda receives", daemon=True).start()
    callback: Any = getattr(c10d, "PythonCallbackWork", None)
    if callback is None:
        work: Work = c10d._create_work_from_future(future)  # type: ignore[attr-defined]  # not in the stubs
        return work

    def waited(timeout: object) -> bool:
        done.wait()  # signals end this wait
        future.wait()
        return True

    # The work of a future does not report errors.
    made: Work = callback(waited)
    return made
