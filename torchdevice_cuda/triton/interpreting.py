"""Run kernels by Triton's interpreter: those that cannot be compiled, and all under ``--triton interpreted``."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import sys
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np

from ..drivers.errors import cuda_error
from .checking import Checked
from .language import Language
from .memory import Memory
from .sources import Sources

if TYPE_CHECKING:
    from .sanitizing import Sanitizer


class Interpreter:
    """Triton's interpreter, with the functions that it runs and the memory that it checks."""

    def __init__(self, sanitize: str = "") -> None:
        """``sanitize`` is the setting."""
        self.sources = Sources()
        self.sanitizer: Sanitizer | None = None
        if sanitize:
            from .sanitizing import Sanitizer

            self.sanitizer = Sanitizer(sanitize)
        self.checked = Checked(self.sources.language.interpreter._interpreter, self.sanitizer)

    @property
    def language(self) -> Language:
        """The language as it is while kernels are interpreted."""
        return self.sources.language


class Interpreted:
    """A kernel's source, with what the compiler knows of its arguments."""

    def __init__(self, interpreter: Interpreter, jitted: Any, metadata: Any, name: str) -> None:
        self._interpreter, self._jitted, self.name = interpreter, jitted, name
        self._language = interpreter.language
        self._options = _options(metadata)
        self._architecture = int(getattr(getattr(metadata, "target", None), "arch", 0))

    def convert(self, value: Any, kind: Any) -> Any:
        """Return an argument as the interpreter wants it, of the type that the compiler gave it."""
        interpreter, tl = self._language.interpreter, self._language.tl
        if isinstance(kind, tuple):
            parts = [self.convert(part, of) for part, of in zip(value, kind, strict=True)]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if kind == "constexpr" or value is None:
            return value
        if kind.startswith("tensordesc"):
            return interpreter._implicit_cvt(value)
        name = kind.removeprefix("*k") if kind.startswith("*k") else kind.removeprefix("*")
        type_ = _type(tl, name)
        if kind.startswith("*"):
            held = np.array([value], dtype=np.uint64)
            pointer = tl.pointer_type(type_)
            return tl.tensor(interpreter.TensorHandle(held, pointer), pointer)
        held = np.array([value]).astype(interpreter._get_np_dtype(type_))
        return tl.tensor(interpreter.TensorHandle(held, type_), type_)

    def compute(self, grid: tuple[int, int, int], values: dict[str, Any], memory: Memory) -> None:
        """Run every program of the grid, one after the other."""
        language = self._language
        interpreter, builder = language.interpreter, language.interpreter.interpreter_builder
        function = self._interpreter.sources.computing(self._jitted)
        with language.computing(), self._interpreter.checked.over(interpreter, memory), np.errstate(all="ignore"):
            options = builder.options
            known = {field.name for field in dataclasses.fields(options)}
            builder.options = dataclasses.replace(options, **{k: v for k, v in self._options.items() if k in known})
            language.arithmetic.architecture = self._architecture
            builder.set_grid_dim(*grid)
            try:
                sanitizer = self._interpreter.sanitizer
                programs = itertools.product(range(grid[0]), range(grid[1]), range(grid[2]))
                for index in programs if sanitizer is None else sanitizer.choose_order(self.name, grid):
                    if sanitizer is not None:
                        sanitizer.begin_program(index)
                    builder.set_grid_idx(*index)
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
        return RuntimeError(what)

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


def _type(tl: Any, name: str) -> Any:
    """A type of the language by its short name; releases differ in what they want besides."""
    wanted = len(inspect.signature(tl.str_to_ty).parameters)
    return tl.str_to_ty(name, *[None] * (wanted - 1))
