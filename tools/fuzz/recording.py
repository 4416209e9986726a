"""Results of a reference in a file: a comparison with it needs neither its machine nor its release of torch."""

from __future__ import annotations

import base64
import collections
import json
import lzma
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from program import Step
from sides import Failed, Observation, Outcome, Side, load_prelude

#: What is kept of an observation besides its values.
_FIELDS = ("kind", "dtype", "shape", "stride", "offset", "flags", "version", "aliases")


class Recording(Side):
    """A side that keeps what it gave."""

    def __init__(self, path: str, side: Side) -> None:
        self._outcomes: list[Any] = []
        super().__init__(side.device)
        self._file = lzma.open(path, "wt", preset=1)  # noqa: SIM115  (closed by close)
        self._number = 0

    def reset(self) -> None:
        """Forget a program."""
        super().reset()
        self._outcomes = []
        self._last: dict[str, list[Any]] = {}

    def keep(self, outcome: Outcome, after: dict[str, Observation]) -> None:
        """Keep what a step gave, of each variable what is new; of one that failed, what it left behind."""
        if isinstance(outcome, Failed):
            self._outcomes.append([outcome.kind, outcome.message, self._take_new(after)])
        else:
            self._outcomes.append(self._take_new(outcome))

    def _take_new(self, seens: dict[str, Observation]) -> dict[str, list[Any]]:
        new = {}
        for name, seen in seens.items():
            kept = [getattr(seen, field) for field in _FIELDS] + [_pack(seen.values)]
            if self._last.get(name) != kept:
                new[name] = self._last[name] = kept
        return new

    def write(self, seed: str, steps: list[Step]) -> None:
        """Append the program."""
        count = min(len(steps), len(self._outcomes))
        program = {
            "seed": seed,
            "number": self._number,
            "steps": [step.to_list() for step in steps[:count]],
            "outcomes": self._outcomes[:count],
        }
        self._file.write(json.dumps(program) + "\n")
        self._number += 1

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


class Recorded:
    """A side that was recorded: what it gave, and its values on the CPU."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.steps = [Step.from_list(step) for step in kept["steps"]]
        # A line may occur several times, and only lines that give something are ever left out.
        seen: collections.Counter[str] = collections.Counter()
        self._outcomes: dict[tuple[str, int], Any] = {}
        for step, outcome in zip(self.steps, kept["outcomes"], strict=True):
            self._outcomes[step.code, seen[step.code]] = outcome
            seen[step.code] += 1
        self.start = load_prelude("cpu")
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.tensors: dict[str, torch.Tensor] = {}
        self._seen: dict[str, Observation] = {}
        self._times: collections.Counter[str] = collections.Counter()

    def run(self, step: Step) -> Failed | None:
        """Tell what became of a step."""
        outcome = self._outcomes[step.code, self._times[step.code]]
        self._times[step.code] += 1
        failed = None
        if isinstance(outcome, list):
            failed, outcome = Failed(*outcome[:2]), outcome[2]
        for name, kept in outcome.items():
            seen = Observation(**dict(zip(_FIELDS, map(_tupled, kept), strict=False)))
            seen.values = _unpack(kept[-1], seen)
            self._seen[name] = seen
            if seen.kind == "Tensor":
                self.tensors[name] = seen.values
        return failed

    def observe(self, step: Step) -> dict[str, Observation]:
        """Tell what was seen after a step."""
        names = {*step.gives, *self.tensors} if step.writes else step.gives
        return {name: self._seen[name] for name in names}

    def drop(self, names: tuple[str, ...]) -> None:
        """Forget variables."""
        for name in names:
            self.tensors.pop(name, None)
            self._seen.pop(name, None)

    def keep(self, outcome: Outcome, after: dict[str, Observation]) -> None:
        """Do nothing: it is kept."""


def read(path: str) -> Iterator[dict[str, Any]]:
    """Read the programs of a file."""
    with lzma.open(path, "rt") as file:
        for number, line in enumerate(file):
            yield {**json.loads(line), "number": number}


def join(parts: list[Path], path: Path) -> None:
    """Put files together: streams of xz that follow one another are one."""
    with path.open("wb") as out:
        for part in parts:
            out.write(part.read_bytes())
            part.unlink()


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _pack(values: Any) -> Any:
    if not isinstance(values, torch.Tensor):
        return repr(values)
    plain = torch.empty(values.numel(), dtype=values.dtype, device="cpu").copy_(values.reshape(-1))
    return base64.b64encode(bytes(plain.view(torch.uint8).tolist())).decode()


def _unpack(kept: str, seen: Observation) -> Any:
    if seen.kind != "Tensor":
        return eval(kept, {"nan": math.nan, "inf": math.inf})
    data = bytearray(base64.b64decode(kept))
    if not data:
        return torch.empty(seen.shape, dtype=getattr(torch, seen.dtype), device="cpu")
    dtype = "complex64" if seen.dtype == "complex32" else seen.dtype
    return torch.frombuffer(data, dtype=getattr(torch, dtype)).reshape(seen.shape)
