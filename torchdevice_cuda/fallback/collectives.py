"""Collective operations of ``torch.distributed`` on tensors of the accelerator: through the host's process group.

Process groups know the devices their backends were built for. None was built for MPS; gloo of a CPU build has CUDA's
kernels and nothing behind them, and the process dies of a null pointer. A collective on the accelerator's tensors takes
copies on the CPU, is done there, and what it wrote is brought back.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch

from . import cpu

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work

    #: What was written, when it is there.
    Results: TypeAlias = torch.futures.Future[list[torch.Tensor]]

_has = torch._C._dispatch_has_kernel_for_dispatch_key
_CPU = torch.device("cpu")
#: Every other operator writes into its first argument.
_READING = frozenset({"send", "barrier"})
#: Completed by another process whenever it likes: waiting at the call could wait for ever.
_ARRIVING = frozenset({"recv_", "recv_any_source_"})


def wanted(key: str) -> Iterator[str]:
    """The collective operators of the running torch that have CUDA's kernel, and none of use at a dispatch key."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if name.startswith("c10d::") and _has(name, "CUDA") and (key == "CUDA" or not _has(name, key)):
            yield name.removeprefix("c10d::")


def _to_cpu(value: Any) -> Any:
    """An argument with its tensors on the CPU, contiguous as process groups want them."""
    if isinstance(value, torch.Tensor):
        return value.to(_CPU).contiguous() if value.layout is torch.strided else value.to(_CPU)
    return [_to_cpu(item) for item in value] if isinstance(value, (list, tuple)) else value


def _written(value: Any) -> list[torch.Tensor]:
    """The tensors that a process group reports as written: those of one device."""
    if isinstance(value, torch.Tensor):
        return [value]
    return cast("list[torch.Tensor]", value[0] if len(value) == 1 and isinstance(value[0], (list, tuple)) else value)


def _boxed(future: Results) -> torch._C.ScriptObject:
    """Work that is done once a future has its results, as operators return it."""
    from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]  # not in the stubs

    work: Work = _create_work_from_future(future)
    return work.boxed()


def _completed(value: list[torch.Tensor]) -> torch._C.ScriptObject:
    """Work that is done, with its results."""
    future: Results = torch.futures.Future()
    future.set_result(value)
    return _boxed(future)


def _awaited(work: Work, finish: Callable[[], list[torch.Tensor]]) -> torch._C.ScriptObject:
    """Work that is done once other work is and ``finish`` has run."""
    future: Results = torch.futures.Future()

    def wait() -> None:
        try:
            work.wait()
            future.set_result(finish())
        except Exception as error:  # whoever waits for the work is to see it
            future.set_exception(error)  # type: ignore[arg-type]  # the stubs take it for a result

    threading.Thread(target=wait, name="torchdevice_cuda receives", daemon=True).start()
    return _boxed(future)


def kernel(name: str, left: Callable[[str, str, str], None]) -> Callable[..., Any]:
    """The kernel of one collective operator; ``left`` is told whenever it runs."""
    op = getattr(torch.ops.c10d, name).default
    alone = len(op._schema.returns) == 1

    def collect(*args: Any) -> Any:
        from torch._C._distributed_c10d import Work

        left(f"c10d::{name}", "CPU", "process groups have no backend for the GPU")
        brought = [_to_cpu(value) for value in args]
        given = op(*brought)
        boxed = given if alone else given[-1]
        if name in _READING:
            return boxed

        def finish() -> list[torch.Tensor]:
            cpu.write_back(args[0], brought[0])
            return _written(args[0])

        work = Work.unbox(boxed)
        if name in _ARRIVING:
            return _awaited(work, finish)
        work.wait()
        done = _completed(finish())
        return done if alone else (args[0], done)

    return collect


def register(key: str, left: Callable[[str, str, str], None]) -> torch.library.Library:
    """Register a kernel for every collective that lacks a useful one; the library that holds them."""
    library = torch.library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        # torch says once that kernels have been overridden; those would end the process.
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for name in wanted(key):
            library.impl(name, kernel(name, left), key)
    return library
