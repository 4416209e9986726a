"""Record the calls of a rehearsed program, by step of its optimizer (``plan``)."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .blas import find_workspaces
from .calls import Call
from .prediction import GAP_NS, LAUNCH_NS, Predictor, Report, Told, make_reporter, read_call, time_launches

if TYPE_CHECKING:
    from ..settings.gpus import Gpu


@dataclasses.dataclass(frozen=True)
class Step:
    """What a step called: how often each call, by its index, and the host's time without launches."""

    calls: tuple[int, ...]
    host_ns: int


@dataclasses.dataclass
class Memory:
    """The most memory that a program used at a time, and what of it stays from step to step, in bytes."""

    allocated: int = 0
    reserved: int = 0
    parameters: int = 0
    gradients: int = 0
    state: int = 0
    workspaces: int = 0  # how many of cuBLAS are in it

    @property
    def kept(self) -> int:
        """Return what stays: parameters, gradients and the optimizer's state."""
        return self.parameters + self.gradients + self.state

    @property
    def activations(self) -> int:
        """Return the rest."""
        return max(self.allocated - self.kept, 0)


class Device(Protocol):
    """The functions of the compiled device that are used here."""

    def start_clock(self, predict: Any, report: Report, launch_ns: int, gap_ns: int) -> None:
        """Keep the GPU's time from now on: ``predict`` returns a call's nanoseconds, kernels and id."""

    def read_clock_counts(self) -> tuple[list[int], int]:
        """Return the calls by that id, and the nanoseconds that computing took here."""

    def count_workspaces(self) -> int:
        """Return how many workspaces of cuBLAS are allocated."""


class Recorder:
    """The calls of a program, its steps and its memory, while it runs."""

    def __init__(self, device: Device, gpu: Gpu) -> None:
        self.calls: list[Call] = []
        self.steps: list[Step] = []
        self.memory = Memory()
        self.gpu = gpu
        self._device = device
        self._predictor = Predictor(gpu)
        self._optimizer: object = None
        self._optimizers: dict[int, Any] = {}
        self._last: tuple[list[int], int, int] = ([], 0, 0)

    def start(self) -> None:
        """Record from now on. Torch must be complete."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._device.start_clock(self._predict, make_reporter(), LAUNCH_NS, GAP_NS)
        register_optimizer_step_post_hook(self._end_step)
        self._last = self._read()

    def finish(self) -> None:
        """Read the memory once more; a program without an optimizer is one step."""
        self._read_memory()
        if not self.steps:
            self._add_step()

    def _predict(self, name: str, described: Sequence[Any], is_tf32: bool) -> Told:
        call = read_call(name, described, is_tf32)
        self.calls.append(call)
        ns, kernels = self._predictor.time(call)
        return ns, kernels, len(self.calls) - 1, 1.0, find_workspaces(call), time_launches(call, kernels)

    def _read(self) -> tuple[list[int], int, int]:
        calls, computing_ns = self._device.read_clock_counts()
        return calls, computing_ns, time.perf_counter_ns()

    def _add_step(self) -> None:
        before, computing_before, began = self._last
        self._last = after, computing, ended = self._read()
        counted = [count - (before[i] if i < len(before) else 0) for i, count in enumerate(after)]
        self.steps.append(Step(tuple(counted), max(ended - began - (computing - computing_before), 0)))

    def _end_step(self, optimizer: Any, *_: object) -> None:
        """Count a step when the first of several optimizers has taken its own."""
        self._optimizers[id(optimizer)] = optimizer
        if self._optimizer is None:
            self._optimizer = optimizer
        if optimizer is self._optimizer:
            self._add_step()
        self._read_memory()

    def _read_memory(self) -> None:
        import torch

        devices = range(torch.cuda.device_count())
        memory = self.memory
        memory.allocated = max(memory.allocated, *(torch.cuda.max_memory_allocated(i) for i in devices))
        memory.reserved = max(memory.reserved, *(torch.cuda.max_memory_reserved(i) for i in devices))
        memory.workspaces = self._device.count_workspaces()
        parameters = [p for optimizer in self._optimizers.values() for g in optimizer.param_groups for p in g["params"]]
        memory.parameters = max(memory.parameters, _count_bytes(parameters))
        memory.gradients = max(memory.gradients, _count_bytes(p.grad for p in parameters))
        states = [state for optimizer in self._optimizers.values() for state in optimizer.state.values()]
        memory.state = max(memory.state, _count_bytes(v for state in states for v in state.values()))

    def choose_step(self) -> Step:
        """Return a step that stands for all: the most frequent calls, and the median of the host's times.

        The first step is left out, because it also creates the optimizer's state.
        """
        later = self.steps[1:] or self.steps
        size = max(len(step.calls) for step in later)
        padded = [step.calls + (0,) * (size - len(step.calls)) for step in later]
        calls = tuple(round(statistics.median(column)) for column in zip(*padded, strict=True))
        return Step(calls, round(statistics.median(step.host_ns for step in later)))


def _count_bytes(values: Iterable[Any]) -> int:
    import torch

    return sum(v.numel() * v.element_size() for v in values if isinstance(v, torch.Tensor) and v.is_cuda)
