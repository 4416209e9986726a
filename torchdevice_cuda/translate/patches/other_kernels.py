"""numba.cuda and CuPy: libraries with their own kernels, which query NVIDIA's driver for the GPU."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, NoReturn

from ..._compat import present
from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch

#: numba reads its settings when it is imported; newer releases of numba.cuda have their own.
_SETTINGS = ("numba.core.config", "numba.cuda.core.config")
_ARRAYS, _KERNELS = "numba.cuda.simulator.cudadrv.devicearray", "numba.cuda.simulator.kernel"


@patch(*(f"{name}.<setting>" for name in _SETTINGS), traits=Trait.SUBSTITUTE)
def simulator(context: Context) -> None:
    """Numba looks for NVIDIA's driver unless its setting selects its own simulator of the GPU."""

    def switch_on(module: ModuleType) -> None:
        context.editor.set(module, "ENABLE_CUDASIM", 1)

    for name in _SETTINGS:
        context.editor.on_undo(context.when_imported(name, context.editor.later(switch_on)))


@patch(f"{_ARRAYS}.<Array>.<name>", f"{_KERNELS}.<Kernel>.<name>", "numba.cuda.<function>", traits=Trait.SUBSTITUTE)
def exchange(context: Context) -> None:
    """numba's simulator neither takes GPU tensors nor passes its arrays to torch, as numba does with a GPU."""

    @functools.cache
    def arrays() -> Any:
        from ...foreign.numba import Arrays

        in_host_memory = Trait.HOST_MEMORY in context.traits
        exports = in_host_memory and Trait.NATIVE in context.traits
        return Arrays(context.on_gpu, exports, None if in_host_memory else context.driver.loan)

    def change(changed: dict[tuple[Any, str], Any]) -> None:
        for (owner, name), value in changed.items():
            context.editor.set(owner, name, value)

    def add_functions(module: ModuleType) -> None:
        simulated = getattr(module, "devicearray", None)
        array = getattr(simulated, "FakeCUDAArray", None)
        if array is not None:
            change(arrays().of_module(module, array))

    waits = {
        _ARRAYS: lambda module: change(arrays().of_arrays(module)),
        _KERNELS: lambda module: change(arrays().of_kernels(module)),
        "numba.cuda": add_functions,
    }
    for name, action in waits.items():
        context.editor.on_undo(context.when_imported(name, context.editor.later(action)))


#: Functions that create arrays and kernels without allocating; all others allocate first.
_CUPY_MAKERS = ("asarray", "from_dlpack", "RawKernel", "RawModule", "ElementwiseKernel", "ReductionKernel")


def _refuse_cupy(what: str, *args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(
        f"{what} needs a real NVIDIA GPU, and the one that torch.cuda shows is emulated: CuPy talks to NVIDIA's driver "
        "itself. Use torch, which computes here, or numpy; cupy.cuda.is_available() says False"
    )


@patch("cupy.<maker>", "cupy.cuda.<allocator>", traits=Trait.SUBSTITUTE)
def refusal(context: Context) -> None:
    """CuPy finds no NVIDIA driver and reports that it is too old; the error must say that there is no GPU."""

    def refuse(module: ModuleType) -> None:
        for name in present(module, _CUPY_MAKERS):
            context.editor.set(module, name, functools.partial(_refuse_cupy, f"cupy.{name}"))
        before = module.cuda.get_allocator()
        module.cuda.set_allocator(functools.partial(_refuse_cupy, "cupy"))
        context.editor.undone("cupy.cuda.set_allocator", lambda: module.cuda.set_allocator(before))

    context.editor.on_undo(context.when_imported("cupy", context.editor.later(refuse)))
