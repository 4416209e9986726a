"""Captures: each call runs, and is recorded to be repeated."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..errors import cuda_error
from ..traits import Trait
from .captures import INVALIDATED
from .draws import Draws
from .journal import Glance, Journal, memory_of
from .mode import Recorder, is_carrying, one_call
from .nodes import Node, alias, calling, flat, held
from .operators import Facts, tensors, writing
from .refusals import Refusals, check_layout

if TYPE_CHECKING:
    from ..base import Driver
    from ..streams import Capture, StreamState
    from .operators import Operator


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call that is running."""

    name: str
    make: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: Sequence[torch.Tensor]
    written: Sequence[torch.Tensor]

    def made(self) -> Any:
        """Run the call. While a graph is captured a GPU reads no elements, so indices may not be valid yet.

        If the call fails, run it with zeros for integers; its result is never seen.
        """
        try:
            return self.make(*self.args, **self.kwargs)
        except (IndexError, RuntimeError) as error:
            if not any(map(self._is_index, self.given)):
                raise
            args, kwargs = held(self.args, self._harmless), held(list(self.kwargs.values()), self._harmless)
            try:
                return self.make(*args, **dict(zip(self.kwargs, kwargs, strict=True)))
            except (IndexError, RuntimeError):
                raise error from None

    def _is_index(self, tensor: torch.Tensor) -> bool:
        whole = tensor.dtype in (torch.int64, torch.int32)
        return whole and not any(tensor is other for other in self.written)

    def _harmless(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(tensor) if self._is_index(tensor) else tensor

    def new(self, results: list[Any]) -> list[tuple[int, torch.Tensor]]:
        """Return the results in newly allocated memory, and their positions."""
        before = {memory_of(tensor)._cdata for tensor in self.given}
        found = [(place, value) for place, value in enumerate(results) if isinstance(value, torch.Tensor)]
        return [(place, value) for place, value in found if memory_of(value)._cdata not in before]


class Recording:
    """A capture that is underway, and what it has recorded."""

    def __init__(self, driver: Driver, capture: Capture, generators: list[torch.Generator]) -> None:
        self.capture = capture
        self.nodes: list[Node] = []
        self._journal = Journal()
        #: the tensors that the nodes hold, by the nodes' positions
        self._used: list[tuple[int, torch.Tensor]] = []
        self._streams = driver.streams
        self._real = driver.device_type
        #: whether GPU memory and host memory cannot be told apart
        self._shared = Trait.CPU_TENSORS in driver.traits
        self._default_generator = torch.default_generator if self._shared else driver.generators()[0]
        self._draws = Draws(generators, self.nodes.append)
        accelerates = driver.settings.policy != "faithful"
        self._refusals = Refusals(capture, self._journal, self._draws, self._shared, accelerates)
        self.recorder = Recorder(self)
        capture.add = self.add
        capture.leave, capture.is_handed_on = self.recorder.leave, self.recorder.is_here

    def add(self, name: str, work: Callable[[], object]) -> None:
        """Add work that is not an operator: it runs when the graph is replayed."""
        self.capture.count(self.capture.origin)
        self.nodes.append(Node(name, work))

    def put_back(self) -> None:
        """Restore the program's memory and generators."""
        self._draws.end()
        share(self._journal.put_back(), self._used)
        self._used.clear()

    def stream(self) -> StreamState | None:
        """Return the calling thread's stream, if it takes part."""
        if self.capture.ended:
            return None
        device = self.capture.origin.device
        stream = self._streams.state(self._streams.current(device), device)
        return stream if self.capture.takes(stream) else None

    # ------------------------------------------------------------------ operators
    def call(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call, and record it if it belongs to the capture."""
        stream = self.stream()
        given = [*tensors(args), *tensors(tuple(kwargs.values()))]
        if stream is None or not self._concerns(given, kwargs):
            return op(*args, **kwargs)
        if self.capture.broken:
            raise cuda_error(INVALIDATED)
        facts = Facts.of(op)
        if not facts.changes_view:
            check_layout(facts.name, given)
        if not is_carrying():
            self._refusals.check(facts, given, args, kwargs)
        if facts.changes_view:
            return op(*args, **kwargs)
        args, kwargs = facts.in_order(args, kwargs)
        generator = (facts.generator_of(args, kwargs) or self._default_generator) if facts.draws else None
        if self._shared and not given and generator is self._default_generator:
            made = op(*args, **kwargs)  # no device was named: the host draws, once for all replays
            self._draws.of(generator).skip()
            self._journal.note_value(made)
            return made
        call = _Call(facts.name, op, args, kwargs, given, facts.writes(args, kwargs))
        return self._recorded(call, facts, generator, stream)

    def _concerns(self, given: list[torch.Tensor], kwargs: dict[str, Any]) -> bool:
        """Return whether a call computes on the GPU."""
        if is_carrying() or any(tensor.device.type == self._real for tensor in given):
            return True
        asked = kwargs.get("device")
        return asked.type == self._real if isinstance(asked, torch.device) else self._shared and not given

    def _is_hosts(self, tensor: torch.Tensor) -> bool:
        """Return whether memory is the host's: the CPU's beside a GPU, or pinned memory if both are the same."""
        return tensor.is_pinned() if self._shared else tensor.device.type == "cpu"

    def _recorded(
        self, call: _Call, facts: Facts | None, generator: torch.Generator | None, stream: StreamState
    ) -> Any:
        """Run a call, and record it if there is something to repeat."""
        journal, draws = self._journal, None if generator is None else self._draws.of(generator)
        for tensor in call.written:
            journal.keep(tensor)
        glance = Glance([tensor for tensor in call.written if not is_carrying() and self._is_hosts(tensor)])
        is_value = self._shared and draws is None and all(map(journal.is_value, call.given))
        if draws is not None:
            draws.before()
        result = call.made()
        glance.put_back()
        results = list(flat(result))
        check_layout(call.name, [value for value in results if isinstance(value, torch.Tensor)])
        new = call.new(results)
        for _, tensor in new:
            journal.adopt(tensor)
            if is_value:
                journal.note_value(tensor)
        for tensor in () if is_value else call.written:
            journal.spoil(tensor)
        if call.name == "aten::lift_fresh":
            journal.note_value(call.args[0])  # data of the program
        if (new or call.written) and not (facts is not None and facts.makes_room):
            places = [(place, self._alias(tensor)) for place, tensor in new]
            kept = {name: held(value, self._kept) for name, value in call.kwargs.items()}
            args = held(call.args, self._alias if facts is None else self._kept)
            self.capture.count(stream)
            out = None if facts is None or is_carrying() else writing(call.make, self._real.upper())
            run = calling(call.make, args, kept, places, out)
            self.nodes.append(Node(call.name, run))
        if draws is not None:
            draws.after()
        return result

    def foreign(
        self, name: str, make: Callable[..., Any], args: tuple[Any, ...], written: Sequence[torch.Tensor]
    ) -> Any:
        """Run a call of other code, which may draw random numbers, and record it as one call."""
        stream = self.stream()
        if stream is None:
            return make(*args)
        if self.capture.broken:
            raise cuda_error(INVALIDATED)
        with one_call():
            call = _Call(name, make, args, {}, list(tensors(args)), written)
            return self._recorded(call, None, self._default_generator, stream)

    def _kept(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor as the graph stores it: host values by copy, other memory by reference."""
        hosts = not self._shared and not is_carrying() and tensor.device.type == "cpu" and not tensor.is_pinned()
        return tensor.clone() if hosts else self._alias(tensor)

    def _alias(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return another tensor over the same memory, which the next node holds."""
        made = alias(tensor)
        self._used.append((len(self.nodes), made))
        return made


_SET = torch._C.TensorBase.set_
#: Factor by which reused memory may be larger than a request.
_SLACK = 2


@dataclasses.dataclass
class _Life:
    """Memory that the graph allocated, and the graph's own tensors in it."""

    storage: torch.UntypedStorage
    first: int
    last: int
    tensors: list[torch.Tensor] = dataclasses.field(default_factory=list)

    def is_held_by_others(self) -> bool:
        """Return whether others than the graph's tensors and the given object hold it."""
        count: int = torch._C._storage_Use_Count(self.storage._cdata)
        return count > len(self.tensors) + 1

    def can_move(self) -> bool:
        """Return whether ``set_`` can restore all of its tensors."""
        return not any(tensor.is_conj() or tensor.is_neg() or tensor.is_quantized for tensor in self.tensors)

    def move(self, storage: torch.UntypedStorage) -> None:
        """Move its tensors to another storage."""
        for tensor in self.tensors:
            _SET(tensor, storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        self.storage = storage


def _lives(own: Iterable[torch.UntypedStorage], used: list[tuple[int, torch.Tensor]]) -> list[_Life]:
    """Return the lifetimes of memory that the capture allocated, in the order in which they begin."""
    found = {storage._cdata: _Life(storage, len(used), -1) for storage in own}
    for place, tensor in used:
        life = found.get(tensor.untyped_storage()._cdata)
        if life is not None:
            life.first, life.last = min(life.first, place), max(life.last, place)
            life.tensors.append(tensor)
    return sorted((life for life in found.values() if life.tensors), key=lambda life: life.first)


def share(own: Iterable[torch.UntypedStorage], used: list[tuple[int, torch.Tensor]]) -> None:
    """Let results that do not live at the same time, and that only the graph holds, share memory.

    A capture keeps all results, so each has its own memory. When the capture has ended, it is known which ones the
    program still holds; the others live from the call that creates them to the last call that reads them, as without a
    graph. ``used``: the tensors of the graph's calls, by the calls' positions.
    """
    living: list[_Life] = []
    free: list[torch.UntypedStorage] = []
    for life in _lives(own, used):
        if not life.storage.nbytes() or life.is_held_by_others() or not life.can_move():
            continue
        free += [other.storage for other in living if other.last < life.first]
        living = [other for other in living if other.last >= life.first]
        size, device = life.storage.nbytes(), life.storage.device
        fitting = [one for one in free if one.device == device and size <= one.nbytes() <= _SLACK * size]
        if fitting:
            best = min(fitting, key=lambda one: one.nbytes())
            free = [one for one in free if one is not best]
            life.move(best)
        living.append(life)
