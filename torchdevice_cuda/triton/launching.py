"""Launches: what triton calls with a grid and arguments once it has compiled a kernel."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from ..drivers.errors import cuda_error
from .memory import Checked, Memory
from .modes import MODES
from .sources import Sources

#: CUDA's limits of a grid.
_LIMITS = (2**31 - 1, 65535, 65535)


@dataclasses.dataclass
class Place:
    """Where kernels run: what depends on the driver."""

    #: a launch's memory
    memory: Callable[[], Memory]
    #: whether the GPU reaches a tensor's memory
    reaches: Callable[[Any], bool]
    #: runs a launch, given its name, the memory it was given and what does it, on behalf of the device
    run: Callable[[str, list[tuple[int, int]], Callable[[], None]], None]


class Launches:
    """Makes the launchers, one for each kernel that was compiled."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.sources = Sources()
        self.checked = Checked(self.sources.language.interpreter._interpreter)

    def launcher(self, source: Any, metadata: Any) -> Callable[..., None]:
        """What ``launcher_cls`` is to triton."""
        name = getattr(metadata, "name", "")
        function = getattr(source, "fn", None)
        if function is None or getattr(function, "is_gluon", lambda: False)():
            kind = "an intermediate representation" if function is None else "Gluon"
            raise NotImplementedError(
                f"the Triton kernel {name} is written in {kind}, which takes a real GPU; here the sources of "
                "@triton.jit functions are interpreted"
            )
        return functools.partial(self._launch, _Kernel(self, source, metadata, name))

    def _launch(
        self, kernel: _Kernel, x: Any, y: Any, z: Any, stream: Any, function: Any, packed: Any, about: Any,
        entering: Any, leaving: Any, *arguments: Any,
    ) -> None:  # fmt: skip
        grid = operator.index(x), operator.index(y), operator.index(z)
        for hook in _hooks(entering):
            hook(about)
        memory = self.place.memory()
        values = kernel.values(arguments, memory)
        if grid[0] * grid[1] * grid[2] > 0:
            if any(size > limit for size, limit in zip(grid, _LIMITS, strict=True)):
                raise RuntimeError("Triton Error [CUDA]: invalid argument")
            if not MODES.only_tried:
                self._compute(kernel.name, memory, lambda: kernel.compute(grid, values, memory))
        for hook in _hooks(leaving):
            hook(about)

    def _compute(self, name: str, memory: Memory, work: Callable[[], None]) -> None:
        if MODES.trusted:
            work()
        else:
            self.place.run(name, memory.ranges(), work)
        memory.finish()


def _hooks(hook: Any) -> list[Callable[[Any], None]]:
    """A hook, or a chain of them, which older releases do not have."""
    return [] if hook is None else [hook]


class _Kernel:
    """A compiled kernel's source, with what the compiler knows of its arguments."""

    def __init__(self, launches: Launches, source: Any, metadata: Any, name: str) -> None:
        self._launches, self._jitted, self.name = launches, source.fn, name
        self._language = launches.sources.language
        self._options = _options(metadata)
        self._architecture = int(getattr(getattr(metadata, "target", None), "arch", 0))
        self._names: list[str] = list(source.fn.arg_names)
        self._types = {self._named(key): value for key, value in source.signature.items()}
        constants = getattr(source, "constants", {})
        self._constants = {self._named(key): value for key, value in constants.items() if self._named(key)}

    def _named(self, key: Any) -> Any:
        """An argument's name; triton says its name, its position or the path to it, by release."""
        if isinstance(key, tuple):
            key = key[0] if len(key) == 1 else None
        return self._names[key] if isinstance(key, int) else key

    def values(self, arguments: tuple[Any, ...], memory: Memory) -> dict[str, Any]:
        """What the interpreter is called with."""
        given = self._names
        if len(arguments) < len(given):  # releases before 3.3 hand over what was not a constant when it was compiled
            constexprs = {self._names[index] for index in self._jitted.constexprs}
            given = [name for name in self._names if name not in constexprs]
        values = {**self._constants, **dict(zip(given, arguments, strict=True))}
        return {
            name: self._value(values.get(name), self._types.get(name, "constexpr"), index, memory)
            for index, name in enumerate(self._names)
        }

    def _value(self, value: Any, kind: Any, index: int, memory: Memory) -> Any:
        """An argument, of the type that the compiler gave it."""
        interpreter, tl = self._language.interpreter, self._language.tl
        if isinstance(kind, tuple):
            parts = [self._value(part, of, index, memory) for part, of in zip(value, kind, strict=True)]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if kind == "constexpr" or value is None:
            return value
        if kind.startswith("tensordesc"):
            base = _Pointer(self._address(value.base, index, memory), value.base)
            return interpreter._implicit_cvt(dataclasses.replace(value, base=base))
        name = kind.removeprefix("*k") if kind.startswith("*k") else kind.removeprefix("*")
        type_ = _type(tl, name)
        if kind.startswith("*"):
            held = np.array([self._address(value, index, memory)], dtype=np.uint64)
            pointer = tl.pointer_type(type_)
            return tl.tensor(interpreter.TensorHandle(held, pointer), pointer)
        held = np.array([value]).astype(interpreter._get_np_dtype(type_))
        return tl.tensor(interpreter.TensorHandle(held, type_), type_)

    def _address(self, value: Any, index: int, memory: Memory) -> int:
        if isinstance(value, int):
            return value
        tensor = getattr(value, "base", value) if not hasattr(value, "untyped_storage") else value
        if not hasattr(tensor, "untyped_storage"):
            return int(value.data_ptr())
        if not MODES.trusted and not self._launches.place.reaches(tensor) and tensor.data_ptr():
            raise ValueError(_unreachable(index))
        return memory.address(tensor)

    def compute(self, grid: tuple[int, int, int], values: dict[str, Any], memory: Memory) -> None:
        """Run every program of the grid, one after the other."""
        language = self._language
        interpreter, builder = language.interpreter, language.interpreter.interpreter_builder
        function = self._launches.sources.computing(self._jitted)
        with language.computing(), self._launches.checked.over(interpreter, memory), np.errstate(all="ignore"):
            options = builder.options
            known = {field.name for field in dataclasses.fields(options)}
            builder.options = dataclasses.replace(options, **{k: v for k, v in self._options.items() if k in known})
            language.arithmetic.architecture = self._architecture
            builder.set_grid_dim(*grid)
            try:
                for x in range(grid[0]):
                    for y in range(grid[1]):
                        for z in range(grid[2]):
                            builder.set_grid_idx(x, y, z)
                            function(**values)
            except Exception as error:
                raise self._failure(error) from error
            finally:
                builder.options = options

    def _failure(self, error: Exception) -> Exception:
        """What a launch raises for what went wrong in the kernel."""
        cause: BaseException = error
        while isinstance(cause, self._language.interpreter.InterpreterError) and cause.__cause__ is not None:
            cause = cause.__cause__
        if hasattr(cause, "error_code") or "CUDA error: " in str(cause):
            return cause  # type: ignore[return-value]
        index = self._language.interpreter.interpreter_builder.grid_idx
        if isinstance(cause, AssertionError):
            # A GPU writes it down as it happens, and the error that the program gets does not say it.
            where, block = self._line(cause), ",".join(map(str, index))
            said = f"unknown: block: [{block}], thread: [0,0,0] Assertion `{cause}` failed."
            print(f"{where}: {said}", file=sys.stderr)
            return cuda_error(710)
        what = (
            f"the Triton kernel {self.name} cannot be interpreted, at program {index}: {type(cause).__name__}: {cause}"
        )
        if isinstance(cause, NotImplementedError):
            return NotImplementedError(what)
        return self._language.interpreter.InterpreterError(what)  # type: ignore[no-any-return]

    def _line(self, error: BaseException) -> str:
        """The line of the kernel where it happened."""
        file = self._jitted.fn.__code__.co_filename
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        return f"{file}:{lines[-1] if lines else self._jitted.fn.__code__.co_firstlineno}"


#: What a kernel was compiled with, and the language asks for again.
_OPTIONS = ("debug", "sanitize_overflow", "default_dot_input_precision", "allowed_dot_input_precisions")


def _options(metadata: Any) -> dict[str, Any]:
    found = {name: getattr(metadata, name) for name in _OPTIONS if hasattr(metadata, name)}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


class _Pointer:
    """A tensor's memory as a descriptor holds it."""

    def __init__(self, address: int, tensor: Any) -> None:
        self._address, self.dtype = address, tensor.dtype

    def data_ptr(self) -> int:
        """The address that the kernel uses."""
        return self._address


def _type(tl: Any, name: str) -> Any:
    """A type of the language by its short name; releases differ in what they want besides."""
    wanted = len(inspect.signature(tl.str_to_ty).parameters)
    return tl.str_to_ty(name, *[None] * (wanted - 1))


def _unreachable(index: int) -> str:
    """Triton's words for a pointer to the host's memory: older releases say which argument it is."""
    from triton.backends.nvidia import driver

    with open(inspect.getfile(driver)) as source:
        says_which = "Pointer argument (at %d)" in source.read()
    where = f" (at {index})" if says_which else ""
    return f"Pointer argument{where} cannot be accessed from Triton (cpu tensor?)"
