"""What ``triton.language`` is while a kernel is interpreted, and who may use it then.

Triton's interpreter replaces functions of the language by others that compute. It does so for good in older releases,
and the compiler cannot use them any more. What it replaces is found out once here, and is in place only while a kernel
runs.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .arithmetic import Arithmetic
from .libdevice import compute

_MISSING = object()
#: (owner, attribute, what it is to the compiler, what it is to the interpreter)
Swap = tuple[Any, str, Any, Any]
#: Functions of CUDA's library of mathematics: stubs that the compiler replaces, and what it replaces them by.
_STUBS, _LIBDEVICE = "triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice"


def _owners(tl: Any) -> list[Any]:
    """Everything that the interpreter may change: the language's modules and the classes in them."""
    modules = [m for name, m in list(sys.modules.items()) if name.partition(".language")[0] == "triton" and m]
    classes = {value for module in (tl, tl.core) for value in vars(module).values() if isinstance(value, type)}
    return [*(module for module in modules if ".language" in module.__name__), *classes]


def _index(tensor: Any) -> int:
    return int(tensor.handle.data.item())


class Language:
    """The interpreter's version of the language, and the lock under which the two versions take turns."""

    def __init__(self, resolve: Callable[[Any], Callable[..., Any]]) -> None:
        """``resolve`` gives what computes a function that the program decorated."""
        import triton.language as tl
        from triton.runtime import interpreter, jit

        self.tl, self.interpreter, self.jit = tl, interpreter, jit
        self._lock = threading.RLock()
        self._depth = 0
        self._flags: dict[str, Any] = {}
        self._swaps = self._found()
        self.arithmetic = Arithmetic(interpreter)
        self._swaps += self.arithmetic.swaps()
        self._swaps += self._libdevice()
        self._swaps += self._functions(resolve)
        knobs = getattr(sys.modules["triton"], "knobs", None)
        if knobs is not None:
            self._flags = vars(knobs.runtime)
        #: By the identity of what a program may have imported by name: what it is to the interpreter.
        self.interpreted = {id(before): after for _, _, before, after in self._swaps if callable(before)}
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        """The lock may have been held by a thread that the child does not have."""
        if self._depth:
            self._put(2)
        self._lock, self._depth = threading.RLock(), 0

    def _found(self) -> list[Swap]:
        """Have the interpreter change the language, look what is different, and put it back."""
        owners = _owners(self.tl)
        before = [dict(vars(owner)) for owner in owners]
        kernel = types.FunctionType((lambda: None).__code__, {"tl": self.tl, "core": self.tl.core})
        self.interpreter._patch_lang(kernel)
        swaps: list[Swap] = []
        for owner, had in zip(owners, before, strict=True):
            for name, now in list(vars(owner).items()):
                if had.get(name, _MISSING) is not now and name not in ("__doc__", "__dict__", "__weakref__"):
                    # Releases before 3.7 have numpy make a number of an array of one, which it no longer does.
                    after = _index if name == "__index__" else now
                    swaps.append((owner, name, had.get(name, _MISSING), after))
        self._swaps = swaps
        self._put(2)
        return swaps

    def _given(self, builtin: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the language that is handed what the compiler would hand it."""
        semantic = getattr(self.interpreter, "interpreter_semantic", None)
        if semantic is not None:
            handed = {"_semantic": semantic}
        else:
            handed = {"_builder": self.interpreter.interpreter_builder}

        @functools.wraps(builtin)
        def call(*args: Any, **kwargs: Any) -> Any:
            return builtin(*args, **{**kwargs, **handed})

        return call

    def _libdevice(self) -> list[Swap]:
        """The library of mathematics, under both of its names, and what computes its functions."""
        genuine, stubs = sys.modules.get(_LIBDEVICE), sys.modules.get(_STUBS)
        swaps: list[Swap] = []
        for name, function in list(vars(genuine).items()) if genuine is not None else ():
            if self.tl.core.is_builtin(function):
                called = self._given(function)
                swaps.append((genuine, name, function, called))
                if stubs is not None and name in vars(stubs):
                    swaps.append((stubs, name, vars(stubs)[name], called))
        builder = type(self.interpreter.interpreter_builder)
        name = "create_extern_elementwise"
        return [*swaps, (builder, name, vars(builder)[name], compute(self.interpreter))]

    def _functions(self, resolve: Callable[[Any], Callable[..., Any]]) -> list[Swap]:
        """Decorated functions: called by a kernel, and those of the language that are methods of its tensors."""
        kind = self.jit.JITFunction

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            return resolve(self)(*args, **kwargs)

        def method(function: Any) -> Callable[..., Any]:
            return lambda self, *args, **kwargs: resolve(function)(self, *args, **kwargs)

        swaps: list[Swap] = [(kind, "__call__", vars(kind)["__call__"], __call__)]
        tensor = self.tl.tensor
        for name, member in (
            inspect.getmembers_static(tensor)
            if hasattr(inspect, "getmembers_static")
            else ((name, inspect.getattr_static(tensor, name)) for name in dir(tensor))
        ):
            if isinstance(member, kind) and name in vars(tensor):
                swaps.append((tensor, name, member, method(member)))
        return swaps

    def count(self, counted: Callable[..., Any], *bounds: Any, **more: Any) -> Iterator[Any]:
        """Count as ``range`` does, in tensors of the bounds' type."""
        tl, interpreter = self.tl, self.interpreter
        is_wide = any(getattr(bound, "dtype", None) == tl.int64 for bound in bounds)
        kind, dtype = (tl.int64, np.int64) if is_wide else (tl.int32, np.int32)
        for number in counted(*bounds, **more):
            yield tl.tensor(interpreter.TensorHandle(np.array([number], dtype=dtype), kind), kind)

    def _put(self, version: int) -> None:
        """Put every function in its place: 3 is the interpreter's version, 2 the compiler's."""
        for swap in self._swaps if version == 3 else reversed(self._swaps):
            owner, name, value = swap[0], swap[1], swap[version]
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """The interpreter's version, for this thread alone."""
        with self._lock:
            if not self._depth:
                self._put(3)
                flag = self._flags.get("interpret", _MISSING)
                self._flags["interpret"] = True
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    if flag is _MISSING:
                        del self._flags["interpret"]
                    else:
                        self._flags["interpret"] = flag
                    self._put(2)

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """The compiler's version: waits until no kernel runs."""
        with self._lock:
            yield
