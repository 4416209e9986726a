"""Describe a race in one paragraph: both accesses, the memory, and the call that is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: The device's kinds of findings: two streams; a stream and the host; a stream and a new owner of freed memory.
STREAMS, HOST, FREED = "streams", "host", "freed"
#: torch's names of dtypes, where they differ from C++'s in lower case.
_DTYPES = {
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Half": "float16",
    "Float": "float32",
    "Double": "float64",
    "ComplexHalf": "complex32",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}

Line = tuple[str, int]


@dataclasses.dataclass(frozen=True)
class Access:
    """One side of a race: the operator, the program's line that issued it, and the stream."""

    op: str
    line: Line | None
    in_backward: bool
    stream: str
    writes: bool
    dtype: str
    shape: tuple[int, ...]
    #: device and stream, as in the timeline of a report; none on the host
    lane: tuple[int, int] | None
    #: on the clock of the compiled device
    at_ns: int

    @property
    def place(self) -> str:
        """Return the line, as errors name it."""
        if self.line is None:
            return "the backward pass" if self.in_backward else "a line that is not the program's"
        return f"the backward pass of {_name_line(self.line)}" if self.in_backward else _name_line(self.line)

    @property
    def tensor(self) -> str:
        """Return the dtype and shape."""
        return f"{_DTYPES.get(self.dtype, self.dtype.lower())}[{', '.join(map(str, self.shape))}]"


@dataclasses.dataclass(frozen=True)
class Finding:
    """Two accesses of the same memory, at least one of them a write, that nothing orders."""

    kind: str
    earlier: Access
    later: Access
    #: the stream that the memory is allocated on
    owner_stream: str
    allocated: Line | None
    freed: Line | None
    device: int
    #: whether the later stream, or the host, waits for work before the earlier access
    waits_for_earlier_work: bool

    def __str__(self) -> str:
        """Return the paragraph."""
        return f"{_HEADLINES[self.kind]}: {self._describe()}. {self._advise()}"

    def _describe(self) -> str:
        earlier, later = self.earlier, self.later
        now, before = ("writes" if later.writes else "reads"), ("writing" if earlier.writes else "reading")
        use = f"{later.place} {now} {later.tensor} ({later.op} on {later.stream})"
        if self.kind == FREED:
            history = f"allocated at {_name(self.allocated)}" + (
                "" if self.freed is None else f" and freed at {_name_line(self.freed)}"
            )
            return (
                f"{use} in memory that {earlier.place} may still be {before} ({earlier.op} of {earlier.tensor} on "
                f"{earlier.stream}). That memory belonged to a tensor {history}, on {self.owner_stream}, where it is "
                "reused at once"
            )
        origin = "" if self.allocated is None else f". The tensor was allocated at {_name_line(self.allocated)}"
        return f"{use} while {earlier.place} may still be {before} it ({earlier.op} on {earlier.stream}){origin}"

    def _advise(self) -> str:
        earlier, later = self.earlier, self.later
        if self.kind == FREED:
            return (
                f"Before the tensor is freed, call tensor.record_stream(stream) with {earlier.stream}, or make "
                f"{self.owner_stream} wait for it: owner.wait_stream(stream)."
            )
        if self.kind == HOST:
            verb = "writes" if later.writes else "reads"
            return (
                f"Before the host {verb} it, call event.synchronize() with an event recorded after {earlier.place}, "
                "stream.synchronize() or torch.cuda.synchronize()."
            )
        late = (
            f" It waits for earlier work of {earlier.stream}, but not for this: record the event, or call "
            f"wait_stream, after {earlier.place}."
            if self.waits_for_earlier_work
            else ""
        )
        return (
            f"Before {later.place}, make {later.stream} wait for {earlier.stream}: later.wait_stream(earlier), or "
            f"later.wait_event(event) with an event recorded after {earlier.place}.{late}"
        )


_HEADLINES = {
    STREAMS: "Race between streams",
    HOST: "Race between the host and a stream",
    FREED: "Use of freed memory by another stream",
}


def read_finding(found: Mapping[str, Any]) -> Finding:
    """Return the finding that the compiled device reports."""
    fields = {field.name: found[field.name] for field in dataclasses.fields(Finding)}
    sides = {side: Access(**{**found[side], "shape": tuple(found[side]["shape"])}) for side in ("earlier", "later")}
    return Finding(**{**fields, **sides})


def _name_line(line: Line) -> str:
    path, number = Path(line[0]), line[1]
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{number}"


def _name(line: Line | None) -> str:
    return "a line that is not the program's" if line is None else _name_line(line)
