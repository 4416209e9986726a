"""Move accelerator tensors to the host's process group and back, on each kind of device.

A carrier lends tensors to the host, and makes the work that the program waits for of the host's. ``finish`` is what is
left to do when the host is done: it writes what was lent.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .agreement import HEAD, RING, TEXT, CollectiveFingerprints

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work

    from ..native.interface import Native

Finish = Callable[[], None]
Tensors = Sequence[torch.Tensor]
#: torch's own, which no redirection reaches.
_to, _copy, _detach = (getattr(torch._C.TensorBase, name) for name in ("to", "copy_", "detach"))
_CPU = torch.device("cpu")


def _settled(work: Work) -> bool:
    """Return whether its results exist. Callbacks of its future run before it counts as done, and may read them."""
    try:
        return bool(work.get_future().done())
    except RuntimeError:  # what is sent or received has no future
        return bool(work.is_completed())


class Call(NamedTuple):
    """The host's work for one call of the program."""

    parts: list[Work]
    outputs: Tensors = ()
    #: what was lent for the outputs
    lent: Tensors = ()
    #: what is left to do when all parts are done
    finish: Finish | None = None
    #: it is done when another process gets there, so that waiting at the call could wait for ever
    arrives: bool = False
    #: of the group, which knows why it has failed
    agreement: CollectiveFingerprints | None = None


class Carrier:
    """Between the accelerator and the host, on a device without a compiled part."""

    def __init__(self) -> None:
        #: Works that may not be done, and whether each is of all ranks.
        self._begun: list[tuple[Work, bool]] = []

    def lend(self, tensors: Tensors) -> list[torch.Tensor]:
        """Return the tensors for the host: nothing that it does to them is recorded by autograd."""
        raise NotImplementedError

    def coalesce(self, change: int) -> None:
        """Have calls of one group more, or fewer, looked at by Python, each of them."""

    def watch(self, backend: Any, agreement: CollectiveFingerprints) -> Callable[[], None]:
        """Have calls that Python does not see compared with what the other ranks do, too; return what ends that."""
        return lambda: None

    def time(self, on: bool) -> None:
        """Have works say how long they took, where they can: Gloo's cannot."""

    def captures(self) -> bool:
        """Return whether a graph is being captured, on whatever stream."""
        return False

    def begin(self, tensors: Tensors, call: Callable[[], Any]) -> Any:
        """Return, meanwhile, the work of a call with these tensors, as a part of the graph if it is in its stream."""
        return call()

    def work(self, call: Call) -> Work:
        """Return work that is done when all parts are and ``finish`` has run; then what was lent is in the outputs.

        It is done before this returns, except for what waits for another process: a thread does that.
        """
        return (_awaited if call.arrives else _done)(call)

    def complete(self, work: Any, agreement: CollectiveFingerprints | None) -> None:
        """Wait for the work of a call that is not asynchronous, where the program's wait would be Gloo's own."""

    def wait(self) -> None:
        """Wait for what was begun and may not be done: whoever synchronizes with the device waits for all of it."""
        begun, self._begun = self._begun, []
        for work, _ in begun:
            # Waiting for the work itself raises its error.
            with contextlib.suppress(RuntimeError):
                if not _settled(work):
                    work.wait()

    def has_pending(self) -> bool:
        """Return whether collectives of all ranks were begun and are not done."""
        return any(is_of_all and not _settled(work) for work, is_of_all in self._begun)


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


class Aliased(Carrier):
    """The device is the host's memory, under another name."""

    def __init__(self, native: Native) -> None:
        super().__init__()
        self._aliases = torch.ops.hostdevice_cuda.to_cpu.default
        self.native = native

    def lend(self, tensors: Tensors) -> list[torch.Tensor]:
        """CPU tensors over the same memory, which they keep."""
        return self._aliases(tensors)  # type: ignore[no-any-return]

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
        """Return the compiled part's work: it waits as the parts' own backend does, and shows device tensors."""
        group = 0 if call.agreement is None else call.agreement.group
        made: Work = self.native.carried_work(call.parts, call.outputs, call.finish, group, call.arrives)
        return made

    def has_pending(self) -> bool:
        """Return whether the compiled part has unfinished work."""
        return self.native.count_pending_collectives() > 0


class Same(Carrier):
    """The device is the CPU: tensors are the host's already."""

    def lend(self, tensors: Tensors) -> list[torch.Tensor]:
        """Lend tensors, detached from autograd."""
        return [_detach(tensor) for tensor in tensors]

    def work(self, call: Call) -> Work:
        """Return the host's own work if it is the only part; otherwise finish it before the call returns."""
        if len(call.parts) == 1 and call.finish is None:
            (part,) = call.parts
            self._begun = [one for one in self._begun if not one[0].is_completed()] + [(part, not call.arrives)]
            return part
        return super().work(call)

    def complete(self, work: Any, agreement: CollectiveFingerprints | None) -> None:
        """Gloo's own wait ends for no signal, and knows not why the group has failed."""
        _wait(work, agreement)


class Copied(Carrier):
    """The device has memory of its own."""

    def lend(self, tensors: Tensors) -> list[torch.Tensor]:
        """Copies, in the order in which their elements lie."""
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


#: Seconds of a wait between checks of the program's signals.
_SLICE = timedelta(milliseconds=100)


def _wait(part: Work, agreement: CollectiveFingerprints | None) -> None:
    """Wait for a collective; Ctrl-C ends it, and an error is why the group has failed."""
    try:
        while True:
            try:
                part.wait(_SLICE)
                return
            except RuntimeError:
                if part.is_completed():
                    part.wait()  # its own error, if it has one
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
    future.set_result(list(call.outputs))
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
            future.set_result(list(call.outputs))
        except Exception as error:  # whoever waits for the work is to see it
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
        done.wait()  # which ends for signals
        future.wait()
        return True

    # Work of a future keeps an error to itself.
    made: Work = callback(waited)
    return made
