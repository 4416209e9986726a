"""Collective operations of ``torch.distributed`` on tensors of the accelerator: through the host's process group.

Process groups know the devices their backends were built for, and none was built for MPS. A collective on the
accelerator's tensors takes copies on the CPU, is done there, and what it wrote is brought back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import cpu

_has = torch._C._dispatch_has_kernel_for_dispatch_key
_CPU = torch.device("cpu")
#: Every other operator writes into its first argument.
_READING = frozenset({"send", "barrier"})
#: Completed by another process whenever it likes: waiting at the call could wait for ever.
_ARRIVING = frozenset({"recv_", "recv_any_source_"})


def missing(key: str) -> Iterator[str]:
    """The collective operators of the running torch that have no kernel at a dispatch key but have CUDA's."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if name.startswith("c10d::") and _has(name, "CUDA") and not _has(name, key):
            yield name.removeprefix("c10d::")


def _home(value: Any) -> Any:
    """An argument with its tensors on the CPU, contiguous as process groups want them."""
    if isinstance(value, torch.Tensor):
        return value.to(_CPU).contiguous() if value.layout is torch.strided else value.to(_CPU)
    return [_home(item) for item in value] if isinstance(value, (list, tuple)) else value


def _written(value: Any) -> list[torch.Tensor]:
    """The tensors that a process group reports as written: those of one device."""
    if isinstance(value, torch.Tensor):
        return [value]
    return value[0] if len(value) == 1 and isinstance(value[0], (list, tuple)) else value


def _completed(value: list[torch.Tensor]) -> Any:
    """Work that is done, with its results."""
    from torch._C._distributed_c10d import _create_work_from_future

    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(value)
    return _create_work_from_future(future).boxed()


def _awaited(work: Any, finish: Callable[[], list[torch.Tensor]]) -> Any:
    """Work that is done once other work is and ``finish`` has run."""
    from torch._C._distributed_c10d import _create_work_from_future

    future: torch.futures.Future[Any] = torch.futures.Future()

    def wait() -> None:
        try:
            work.wait()
            future.set_result(finish())
        except Exception as error:  # whoever waits for the work is to see it
            future.set_exception(error)

    threading.Thread(target=wait, name="torchdevice_cuda receives", daemon=True).start()
    return _create_work_from_future(future).boxed()


def kernel(name: str, left: Callable[[str, str, str], None]) -> Callable[..., Any]:
    """The kernel of one collective operator; ``left`` is told whenever it runs."""
    op = getattr(torch.ops.c10d, name).default
    alone = len(op._schema.returns) == 1

    def collect(*args: Any) -> Any:
        from torch._C._distributed_c10d import Work

        left(f"c10d::{name}", "CPU", "process groups have no backend for the GPU")
        at_home = [_home(value) for value in args]
        given = op(*at_home)
        boxed = given if alone else given[-1]
        if name in _READING:
            return boxed

        def finish() -> list[torch.Tensor]:
            cpu.write_back(args[0], at_home[0])
            return _written(args[0])

        work = Work.unbox(boxed)
        if name in _ARRIVING:
            return _awaited(work, finish)
        work.wait()
        done = _completed(finish())
        return done if alone else (args[0], done)

    return collect


def register(key: str, left: Callable[[str, str, str], None]) -> Any:
    """Register a kernel for every collective that lacks one; the library that holds them."""
    library = torch.library.Library("c10d", "IMPL")
    for name in missing(key):
        library.impl(name, kernel(name, left), key)
    return library
