"""Find other threads that run code that uses torch, and whether the calling thread captures a graph."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

_OURS = __name__.partition(".")[0]
_PACKAGES = ("torch", _OURS)
#: Threads of torch's own that live as long as the process, and touch no tensor.
_STANDING = ("torch._inductor.compile_worker", "torch._inductor.async_compile")


def using_torch() -> list[str]:
    """List those threads, with their places in the program.

    A call into torch's C++ leaves no frame of its own: a thread is known by the code that it is in, which names torch
    or holds something of torch's.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    me = threading.get_ident()
    found = []
    for ident, frame in sys._current_frames().items():
        stack = [] if ident == me else list(_stack(frame))
        if any(_belongs(each, _STANDING) for each in stack):
            continue
        user = next((each for each in stack if _uses_torch(each)), None)
        if user is not None:
            where = f"{user.f_code.co_name}, {user.f_code.co_filename}:{user.f_lineno}"
            found.append(f"{names.get(ident, ident)} (in {where})")
    return sorted(found)


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_of(name: Any, packages: tuple[str, ...]) -> bool:
    return isinstance(name, str) and any(name == package or name.startswith(f"{package}.") for package in packages)


def _belongs(frame: FrameType, packages: tuple[str, ...]) -> bool:
    return _is_of(frame.f_globals.get("__name__"), packages)


def _uses_torch(frame: FrameType) -> bool:
    if _belongs(frame, _PACKAGES):
        return True
    named = (frame.f_globals.get(name) for name in frame.f_code.co_names)
    return any(_is_torchs(value) for value in named) or any(_is_torchs(value) for value in [*frame.f_locals.values()])


def _is_torchs(value: Any) -> bool:
    """Return whether it is a module, class, function or object of torch's; nothing of the value's own is called."""
    if isinstance(value, ModuleType):
        return _is_of(value.__dict__.get("__name__"), _PACKAGES)
    kinds = value.__mro__ if type(value) is type else type(value).__mro__
    if any(_is_of(kind.__dict__.get("__module__"), _PACKAGES) for kind in kinds):
        return True
    return type(value) is type(_is_torchs) and _is_of(value.__module__, _PACKAGES)


def captures() -> bool:
    """Return whether this thread is capturing a CUDA graph: what records it would stay behind."""
    cuda = sys.modules.get("torch.cuda")
    # A torch that could not be imported has only some of its names.
    begun = getattr(cuda, "is_initialized", None)
    return cuda is not None and begun is not None and bool(begun() and cuda.is_current_stream_capturing())
