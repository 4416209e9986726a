"""MLX or the CPU: chosen for each operator, dtype and size class by measurements on this machine.

The first calls of a class are measured on the program's own arguments: both compute them, and the program gets the
CPU's result. Both start and end with CPU tensors, so that copies between the GPU and the CPU, which are the same for
both, are not measured; copies between torch's tensors and MLX's arrays are.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from . import mlx_ops, thresholds
from .cpu import write_back
from .mlx_arrays import mlx
from .operators import Shape
from .thresholds import Figures

if TYPE_CHECKING:
    from .operators import Operator

_log = logging.getLogger("torchdevice_cuda")
_numel = torch._C.TensorBase.numel

#: How often both are timed before one is chosen; the first time includes MLX's compilation.
ROUNDS = 2
#: Size classes below this one use the CPU: MLX gains nothing there.
SMALLEST = thresholds.size_class(64)
#: CPU calls that take fewer seconds are not worth a measurement.
QUICK = 50e-6
#: The budget of measurements: seconds, and a share of the program's time.
ALLOWANCE, SHARE = 1.0, 0.02
#: MLX's errors for unsupported calls; the CPU then computes, or raises torch's own error.
MLX_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, OverflowError)
MLX_FAILED = "MLX could not compute it"

#: dtype and size class of a call's tensors
Subject = tuple[torch.dtype | None, int]
Inner = Callable[..., Any]
#: The backend of a call, and the function that computes it (``None``: the operator itself).
Step = tuple[str, Inner | None]
Route = Callable[[tuple[Any, ...], dict[str, Any]], Step]
ON_CPU: Step = ("CPU", None)


def installed() -> bool:
    """Return whether MLX is installed; the first call that could use it imports it."""
    try:
        return importlib.util.find_spec("mlx.core") is not None
    except (ImportError, ValueError):  # no MLX, or a module of the program with that name
        return False


def functional(op: Operator) -> str | None:
    """Return an operator's name in MLX's table, also for the ``out=`` or in-place form of an entry."""
    schema = op._schema
    plain = schema.name.removeprefix("aten::")
    full = f"{plain}.{schema.overload_name}" if schema.overload_name else plain
    written = [argument for argument in schema.arguments if _is_written(argument)]
    if not written:
        return full if full in mlx_ops.TABLE else None
    in_place = not any(argument.kwarg_only for argument in written)
    wanted = [argument.name for argument in schema.arguments if in_place or argument not in written]
    packet = getattr(torch.ops.aten, plain.removesuffix("_") if in_place else plain, None)
    for overload in packet.overloads() if packet is not None else ():
        other = getattr(packet, overload)._schema
        name = f"{other.name.removeprefix('aten::')}.{overload}".removesuffix(".default")
        same = [argument.name for argument in other.arguments] == wanted
        if same and name in mlx_ops.TABLE and not any(map(_is_written, other.arguments)):
            return name
    return None


def _is_written(argument: torch._C.Argument) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


class Budget:
    """The cost of measurements so far, and their lock: one thread measures at a time, as two disturb each other."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self._started, self._spent = time.monotonic(), 0.0

    def allows(self, seconds: float = 0.0) -> bool:
        """Return whether this cost is within the budget."""
        return self._spent + seconds <= ALLOWANCE + SHARE * (time.monotonic() - self._started)

    def spend(self, seconds: float) -> None:
        """Add to the cost; the caller holds ``busy``."""
        self._spent += seconds


class Routes:
    """Applies the ``mlx`` setting."""

    def __init__(self, setting: str, left: Callable[[str, str, str], None]) -> None:
        self._setting = setting if installed() else "off"
        self._left = left
        self._lock = threading.Lock()
        self._figures: Figures | None = None
        self._budget = Budget()

    def of(self, shape: Shape) -> Route | None:
        """Return the route of an operator's calls; ``None`` for one that MLX lacks."""
        name = functional(shape.op) if self._setting != "off" and not shape.draws else None
        if name is None:
            return None
        entry = mlx_ops.TABLE[name]
        by_mlx: Step = ("MLX", _through(entry, shape, self._left))
        if self._setting == "always":
            return lambda args, kwargs: by_mlx if mlx_ops.fits(entry, args, _given(shape, kwargs)) else ON_CPU
        return Choice(entry, shape, by_mlx, self.figures, self._budget).route

    def figures(self) -> Figures | None:
        """Return this machine's figures, read when they are first needed; ``None`` if MLX does not work."""
        if self._figures is None and mlx() is not None:
            with self._lock:
                if self._figures is None:
                    self._figures = Figures()
                    atexit.register(self._figures.save)
        return self._figures

    def close(self) -> None:
        """Store the measurements for later processes."""
        if self._figures is not None:
            atexit.unregister(self._figures.save)
            self._figures.save()


class Choice:
    """The choice between MLX and the CPU, for one operator."""

    def __init__(
        self, entry: mlx_ops.Entry, shape: Shape, by_mlx: Step, figures: Callable[[], Figures | None], budget: Budget
    ) -> None:
        self._entry, self._shape, self._by_mlx = entry, shape, by_mlx
        self._figures, self._budget = figures, budget
        #: whether MLX is used; a missing entry is undecided
        self._verdicts: dict[Subject, bool] = {}
        #: how often both were timed, and the best times so far
        self._timed: dict[Subject, tuple[int, thresholds.Pair]] = {}

    def route(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        """Choose the backend of one call."""
        dtype, size = None, 0
        for value in args:
            if value.__class__ is list:
                value = max(mlx_ops.tensors(value), key=_numel, default=None)
            if isinstance(value, torch.Tensor):
                count = _numel(value)
                if dtype is None:
                    dtype = value.dtype
                if count > size:
                    size = count
        subject = (dtype, thresholds.size_class(size))
        verdict = self._verdicts.get(subject)
        if verdict is None and subject[1] < SMALLEST:
            verdict = self._verdicts[subject] = False
        if verdict is False or not mlx_ops.fits(self._entry, args, _given(self._shape, kwargs)):
            return ON_CPU
        return self._by_mlx if verdict else self._consider(subject)

    def _consider(self, subject: Subject) -> Step:
        """Choose the backend of a call whose class this process has not decided yet."""
        figures = self._figures()
        if figures is None:
            self._verdicts[subject] = False
            return ON_CPU
        key = self._key(subject)
        known = figures.measured(key)
        if known is not None:
            self._verdicts[subject] = thresholds.wins(known)
            return self._by_mlx if self._verdicts[subject] else ON_CPU
        if self._shape.plain and self._budget.allows():
            return "CPU", functools.partial(self._measure, subject, figures)
        return self._by_mlx if figures.expected(key) else ON_CPU

    def _key(self, subject: Subject) -> thresholds.Key:
        return self._entry.name, str(subject[0]).removeprefix("torch."), subject[1]

    def _measure(self, subject: Subject, figures: Figures, /, *args: Any, **kwargs: Any) -> Any:
        """Compute on the CPU, and time MLX for comparison."""
        started = time.perf_counter()
        result = self._shape.op(*args, **kwargs)
        on_cpu = time.perf_counter() - started
        if on_cpu < QUICK:
            self._verdicts[subject] = False
        elif not self._budget.allows(on_cpu):
            self._verdicts[subject] = figures.expected(self._key(subject))
        elif self._budget.busy.acquire(blocking=False):
            try:
                if subject not in self._verdicts:  # another thread may have decided meanwhile
                    run = functools.partial(mlx_ops.run, self._entry, *args, **kwargs)
                    self._compare(subject, figures, on_cpu, run)
            finally:
                self._budget.busy.release()
        return result

    def _compare(self, subject: Subject, figures: Figures, on_cpu: float, through_mlx: Callable[[], Any]) -> None:
        """Time one round; the last round decides."""
        failed = False
        started = time.perf_counter()
        try:
            through_mlx()
        except MLX_ERRORS as error:
            _log.debug("MLX does not compute %s: %s", self._entry.name, error)
            failed = True
        spent = time.perf_counter() - started
        self._budget.spend(spent)
        rounds, best = self._timed.get(subject, (0, (math.inf, math.inf)))
        best = (min(best[0], on_cpu), best[1] if failed else min(best[1], spent))
        self._timed[subject] = (rounds + 1, best)
        if rounds + 1 < ROUNDS:
            return
        self._verdicts[subject] = thresholds.wins(best)
        if math.isfinite(best[1]):
            key = self._key(subject)
            figures.add(key, best)
            _log.info(
                "%s of %s, size class %d: %.0f us on the CPU, %.0f us through MLX", *key, best[0] * 1e6, best[1] * 1e6
            )


def _through(entry: mlx_ops.Entry, shape: Shape, left: Callable[[str, str, str], None]) -> Inner:
    """Return a function that computes an operator of CPU tensors through MLX, and on the CPU if MLX cannot."""
    op, name = shape.op, shape.op.name()

    def compute(*args: Any, **kwargs: Any) -> Any:
        try:
            given = mlx_ops.run(entry, *args, **_given(shape, kwargs))
            return _write(shape, args, kwargs, given) if shape.written else given
        except MLX_ERRORS as error:
            _log.debug("MLX does not compute %s: %s", name, error)
        left(name, "CPU", MLX_FAILED)
        return op(*args, **kwargs)

    return compute


def _given(shape: Shape, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that an entry takes: without those that are only written."""
    return {key: value for key, value in kwargs.items() if key not in shape.written} if shape.written else kwargs


def _write(shape: Shape, args: tuple[Any, ...], kwargs: dict[str, Any], given: Any) -> Any:
    """Store results as the operator's form requires: into ``out=``, or the first argument."""
    named = dict(zip(shape.names, args, strict=False), **kwargs)
    targets = [named[name] for name in shape.names if name in shape.written]
    results = list(given) if isinstance(given, (list, tuple)) else [given]
    for target, result in zip(targets, results, strict=True):
        # torch resizes empty outputs; other mismatches have their own rules and warnings.
        if target.dtype is not result.dtype or (target.shape != result.shape and target.numel()):
            raise mlx_ops.UnfitError(f"{target.dtype} {tuple(target.shape)} is not what MLX computes")
    for target, result in zip(targets, results, strict=True):
        write_back(target, result)
    return tuple(targets) if len(targets) > 1 else targets[0]
