"""A side of a comparison: a device that executes the steps of a program, and the observed properties of its tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from types import CodeType
from typing import Any

import torch
from program import PRELUDE, Step

_HALF = re.compile(r"torch\.(float16|bfloat16)\b")
#: Steps that differentiate.
OF_GRADIENTS = ("gradient", "backward")
#: Steps that make a tensor contiguous, which the two sides had laid out otherwise.
LAID_OUT = "laid out"
HALVES = (torch.float16, torch.bfloat16)


@dataclasses.dataclass
class Observation:
    """The observed properties of a result."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    offset: int = 0
    #: requires_grad, is_leaf, is_conj, is_neg
    flags: tuple[bool | None, ...] = ()
    version: int = 0
    #: the variables that share its memory
    aliases: tuple[str, ...] = ()
    #: on the CPU; of what is no tensor the thing itself
    values: Any = None


@dataclasses.dataclass
class Failed:
    """An error that a step raised."""

    kind: str
    message: str


Outcome = dict[str, Observation] | Failed


@functools.lru_cache(4096)
def _compiled(code: str) -> CodeType:
    return compile(code, "<step>", "exec")


def load_prelude(device: str) -> dict[str, Any]:
    """Execute the prelude for a device."""
    made: dict[str, Any] = {"__name__": "prelude"}
    exec(compile(PRELUDE.read_text(), str(PRELUDE), "exec"), made)
    made["DEV"] = device
    return made


class Side:
    """The variables of a program on a device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.start = load_prelude(device)
        self.reset()

    def reset(self) -> None:
        """Forget a program."""
        self.names = dict(self.start)
        self.tensors: dict[str, torch.Tensor] = {}
        self._storages: dict[str, int] = {}
        #: the version from which on it is counted
        self._versions: dict[str, int] = {}

    def run(self, step: Step) -> Failed | None:
        """Execute a step; its error, if it raised one."""
        try:
            exec(_compiled(step.code), self.names)
        except Exception as error:  # any: it is compared with the other side's
            self.drop(step.gives)
            return Failed(type(error).__name__, str(error).strip().split("\n")[0][:300])
        for name in step.gives:
            value = self.names[name]
            if isinstance(value, torch.Tensor):
                self.tensors[name] = value
                self._storages[name] = value.untyped_storage()._cdata
                self._versions[name] = self._find_start(name, step)
        return None

    def _find_start(self, name: str, step: Step) -> int:
        """Find the version from which on one is counted: how often autograd adds to a gradient is its own affair."""
        if step.op in (*OF_GRADIENTS, LAID_OUT):
            return self.tensors[name]._version
        if not self.tensors[name]._is_view():
            return 0
        storage = self._storages[name]
        shared = [self._versions[other] for other, own in self._storages.items() if own == storage and other != name]
        return max(shared, default=0)

    def drop(self, names: tuple[str, ...]) -> None:
        """Forget variables."""
        for name in names:
            self.names.pop(name, None)
            self.tensors.pop(name, None)
            self._storages.pop(name, None)

    def observe(self, step: Step) -> dict[str, Observation]:
        """See what a step gave; if it writes, what became of all tensors."""
        names = {*step.gives, *self.tensors} if step.writes else step.gives
        return {name: self._observe(name) for name in names}

    def _observe(self, name: str) -> Observation:
        value = self.names[name]
        if not isinstance(value, torch.Tensor):
            return Observation(type(value).__name__, values=value)
        storage = self._storages[name]
        aliases = tuple(sorted(other for other, own in self._storages.items() if own == storage and other != name))
        return Observation(
            kind="Tensor",
            dtype=str(value.dtype).removeprefix("torch."),
            shape=tuple(value.shape),
            stride=tuple(value.stride()),
            offset=value.storage_offset(),
            flags=(value.requires_grad, is_leaf(value), value.is_conj(), value.is_neg()),
            version=value._version - self._versions[name],
            aliases=aliases,
            values=settled(value),
        )

    def keep(self, outcome: Outcome, after: dict[str, Observation]) -> None:
        """Do nothing: only a recording keeps what it gave."""

    def take_over(self, name: str, values: torch.Tensor) -> bool:
        """Give a variable exact values without touching its graph or version; whether that worked."""
        mine = self.tensors[name]
        with contextlib.suppress(RuntimeError), torch.no_grad():
            target = mine.data
            if target.is_conj() or target.is_neg():
                return False
            if any(stride == 0 and size > 1 for stride, size in zip(mine.stride(), mine.shape, strict=True)):
                # What is expanded has each element once.
                for dim, stride in enumerate(mine.stride()):
                    if stride == 0:
                        target, values = target.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
            target.copy_(values)
            return True
        return False


def is_leaf(value: torch.Tensor) -> bool | None:
    """Tell whether it is a leaf; of a view that was changed where that is not allowed torch does not say."""
    try:
        return value.is_leaf
    except RuntimeError:
        return None


def overlaps(value: torch.Tensor) -> bool:
    """Tell whether elements share memory."""
    dims = sorted((stride, size) for stride, size in zip(value.stride(), value.shape, strict=True) if size > 1)
    reach = 1
    for stride, size in dims:
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


def settled(value: torch.Tensor) -> torch.Tensor:
    """Bring values to the CPU, without lazy bits."""
    here = value.detach().cpu().resolve_conj().resolve_neg()
    # The CPU has few kernels for complex numbers of two halves, and complex64 has all of them.
    return here.to(torch.complex64) if here.dtype is torch.complex32 else here


def widen(steps: list[Step], side: Side, starts: dict[str, torch.Tensor] | None = None) -> dict[str, Any]:
    """Execute steps in float32 where they are in half precision; the variables.

    ``starts`` are the variables that are there before; without any, the steps are a whole program.
    """
    names: dict[str, Any] = dict(side.start)
    for name, value in (starts or {}).items():
        names[name] = value.detach().float() if value.dtype in HALVES else value.detach().clone()
    for step in steps:
        with contextlib.suppress(Exception):  # what failed then fails now, and what depends on it, too
            exec(_compiled(_HALF.sub("torch.float32", step.code)), names)
    return names


def lay_out_plainly(steps: list[Step], side: Side, starts: dict[str, torch.Tensor] | None) -> dict[str, Any] | None:
    """Execute steps with every tensor contiguous; the variables, or nothing where that fails.

    A kernel of the CPU that forgets strides or lazy bits is wrong on both sides, and right here.
    """
    names: dict[str, Any] = dict(side.start)
    for name, value in (starts or {}).items():
        names[name] = _plain(value.detach())
    try:
        for step in steps:
            exec(_compiled(step.code), names)
            for name in step.gives:
                if isinstance(names[name], torch.Tensor):
                    names[name] = _plain(names[name])
    except Exception:
        return None
    return names


def _plain(value: torch.Tensor) -> torch.Tensor:
    return value.resolve_conj().resolve_neg().contiguous()
