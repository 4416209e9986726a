"""Collectives that run later than they are issued (``--streams adversarial``).

A group's collectives run in the order of issue on a stream of the group, as NCCL's do, and unbatched sends and receives
on one for each other rank. A collective takes its inputs when the stream reaches it, and writes its outputs when it is
waited for; between, Gloo works on copies. It could not run as a whole when it is waited for: the other ranks need its
data before, and their waits would never end.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map_only

from .carriers import Accesses, Aliased, Call, Group

if TYPE_CHECKING:
    from ..native.interface import Native

#: Seconds between two checks of what another rank sends.
_TICK = 0.0005


class _Checked(BaseException):
    """The arguments of a call are valid; it needs their elements next."""


class Deferred:
    """One call of a backend: its steps, which run on any thread."""

    def __init__(self, carrier: Deferring, call: Callable[[], Any], accesses: Accesses) -> None:
        self.accesses = accesses
        self._carrier, self._call = carrier, call
        #: the device's memory, by the ids of its copies
        self.memory: dict[int, torch.Tensor] = {}
        self.made: Call | None = None
        self._work: Any = None
        self._future: Any = None

    def begin(self) -> None:
        """Take the inputs and call the backend."""
        with self._carrier.during(self):
            self._call()
        made = self.made
        assert made is not None
        self._work = self._carrier.native.carried_work(
            made.parts, (), None, 0 if made.agreement is None else made.agreement.group, made.arrives
        )
        # Gloo's receives do not report that they are done, so a thread waits for them.
        if made.arrives and made.outputs:
            self._future = self._work.get_future()

    def has_come(self) -> bool:
        """Return whether the outputs can be written."""
        if self.made is None or (self.made.arrives and not self.made.outputs):
            return True  # a call that has failed, or a send, which writes nothing
        return bool(self._future.done() if self._future is not None else self._work.is_completed())

    def wait(self) -> None:
        """Wait until they can be; Ctrl-C ends the wait, and ``finish`` raises other errors."""
        try:
            if self._future is None and not self.has_come():
                self._work.wait()
        except RuntimeError:
            return
        while not self.has_come():
            time.sleep(_TICK)

    def finish(self) -> None:
        """Write the outputs."""
        made = self.made
        if made is None or (made.arrives and not made.outputs):
            return
        (self._work if self._future is None else self._future).wait()
        if made.finish is not None:
            made.finish()
        if self.accesses.written:
            for copy in made.lent:
                self.memory[id(copy)].copy_(copy)


class Deferring(Aliased):
    """The device is in host memory, and its work runs later."""

    def __init__(self, native: Native) -> None:
        super().__init__(native)
        self._now = threading.local()
        self._numbers = itertools.count()

    @contextmanager
    def during(self, step: Deferred | type[_Checked]) -> Iterator[None]:
        """Let this thread run a step of a deferred call, or check a call's arguments."""
        self._now.step = step
        try:
            yield
        finally:
            self._now.step = None

    def _step(self) -> Deferred | type[_Checked] | None:
        return getattr(self._now, "step", None)

    def is_within_call(self) -> bool:
        """Return whether this thread runs a step of a deferred call."""
        return self._step() is not None

    def lend(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return copies in a deferred call."""
        step = self._step()
        if step is _Checked:
            raise _Checked
        lent = super().lend(tensors)
        if not isinstance(step, Deferred):
            return lent
        copies = [one.clone() for one in lent]
        step.memory.update((id(copy), one) for copy, one in zip(copies, lent, strict=True))
        return copies

    def work(self, call: Call) -> Any:
        """Return nothing in a deferred call: its work exists already."""
        step = self._step()
        if not isinstance(step, Deferred):
            return super().work(call)
        step.made = call
        return None

    def defer(self, group: Group, call: Callable[..., Any], handed: Sequence[Any], accesses: Accesses) -> Any:
        """Return the work of a call that runs later, or nothing if it has to run at once."""
        if not self.native.may_run_later():
            return None
        if accesses.given:
            try:
                with self.during(_Checked):
                    call(*handed)
            except _Checked:
                pass
        # The program may resize storages meanwhile, as FSDP does.
        borrowed = iter(self.native.borrow_tensors(accesses.given))
        later: list[Any] = tree_map_only(torch.Tensor, lambda _: next(borrowed), list(handed))
        step = Deferred(self, partial(call, *later), accesses)
        if group.coalesced is None:
            return self._issue(group, [step])
        group.coalesced.append(step)
        return self.native.carried_work((), (), None, 0, False)

    def join(self, group: Group, works: list[Any]) -> Any:
        """Issue deferred calls as one: none of them waits for another one."""
        steps = [work for work in works if isinstance(work, Deferred)]
        return self._issue(group, steps) if steps and len(steps) == len(works) else super().join(group, works)

    def _issue(self, group: Group, steps: list[Deferred]) -> Any:
        tensors = [tensor for step in steps for tensor in step.accesses.given]

        def each(run: Callable[[Deferred], None]) -> Callable[[], None]:
            def run_all() -> None:
                for step in steps:
                    run(step)

            return run_all

        return self.native.defer_collective(
            self.find_device(tensors),
            self.number(group, steps[0].accesses.peer if len(steps) == 1 else None),
            [tensor for step in steps for tensor in step.accesses.outputs],
            [tensor for step in steps for tensor in step.accesses.written],
            [tensor for step in steps for tensor in step.accesses.read],
            each(Deferred.begin),
            lambda: all(step.has_come() for step in steps),
            each(Deferred.wait),
            each(Deferred.finish),
            not tensors,
        )
