"""Libraries beside torch whose own compiled code does not fit the GPU that it shows: a remedy, or one clear line."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.library

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch

#: The last module of bitsandbytes that registers kernels, and its operators' namespace.
BITSANDBYTES, _NAMESPACE = "bitsandbytes.backends.default.ops", "bitsandbytes"


@patch(f"torch.ops.{_NAMESPACE}[<key>]", traits=Trait.NATIVE | Trait.HOST_MEMORY)
def bitsandbytes(context: Context) -> None:
    """Operators of bitsandbytes that only its CPU part has compute on the host's memory, where the tensors are.

    It registers kernels for CUDA where CUDA's library can be loaded, so there are none.
    """

    def register(_module: ModuleType) -> None:
        library = torch.library.Library(_NAMESPACE, "IMPL")
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("CPU"):
            if not name.startswith(f"{_NAMESPACE}::") or any(
                has_kernel(name, key) for key in ("CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
            ):
                continue
            short, _, overload = name.removeprefix(f"{_NAMESPACE}::").partition(".")
            operator = getattr(getattr(torch.ops.bitsandbytes, short), overload or "default")
            library.impl(name.removeprefix(f"{_NAMESPACE}::"), _call_cpu_kernel(operator), "CUDA")
        context.editor.undone(f"torch.ops.{_NAMESPACE}[CUDA]", library._destroy)

    context.editor.on_undo(context.when_imported(BITSANDBYTES, context.editor.later(register)))


def _call_cpu_kernel(operator: Any) -> Callable[..., Any]:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return operator.redispatch(keys, *args, **kwargs)

    return kernel


@patch("torchvision.extension.<check>", traits=Trait.SUBSTITUTE)
def torchvision(context: Context) -> None:
    """A torchvision that was built for CUDA cannot load its operators beside a CPU build of torch.

    It goes on without them and then fails: ``operator torchvision::nms does not exist``. The reason is said instead.
    """

    def check(module: ModuleType) -> None:
        if module._has_ops():
            return
        found = importlib.util.find_spec("torchvision")
        folders = list(found.submodule_search_locations or ()) if found is not None else []
        libraries = [path for folder in folders for path in Path(folder).glob("_C*.so")]
        for path in libraries:
            try:
                torch.ops.load_library(path)
            except OSError as error:
                raise ImportError(
                    f"torchvision was built for another torch than the installed {torch.__version__} ({error}). "
                    "Install the build that fits: pip install --force-reinstall --no-deps torchvision "
                    "--index-url https://download.pytorch.org/whl/cpu"
                ) from None

    context.editor.on_undo(context.when_imported("torchvision.extension", context.editor.later(check)))


@patch("warp.<runtime>.get_device", "warp.<torch>.device_from_torch", traits=Trait.SUBSTITUTE)
def warp(context: Context) -> None:
    """Warp talks to NVIDIA's driver itself; asked for a GPU, it fails with an IndexError or an invalid identifier."""

    def refuse(ident: Any, find: Callable[[], Any]) -> Any:
        try:
            return find()
        except (AttributeError, IndexError, ValueError, RuntimeError) as error:
            if "cuda" not in str(ident):
                raise
            raise RuntimeError(
                f"warp has no device {str(ident)!r}: it needs a real NVIDIA GPU, and the one that torch.cuda shows "
                f"is emulated ({error}). Use device='cpu'; warp.from_torch takes tensors of the CPU"
            ) from None

    def replace_runtime(module: ModuleType) -> None:
        kind = module.Runtime
        original = kind.get_device
        if original.__module__ == __name__:  # one module under both names
            return

        def get_device(self: Any, ident: Any = None) -> Any:
            return refuse(ident, lambda: original(self, ident))

        context.editor.set(kind, "get_device", get_device, target="warp.<runtime>.get_device")

    def replace_torch(module: ModuleType) -> None:
        original = module.device_from_torch
        if original.__module__ == __name__:
            return

        def device_from_torch(torch_device: Any) -> Any:
            return refuse(torch_device, lambda: original(torch_device))

        context.editor.set(module, "device_from_torch", device_from_torch, target="warp.<torch>.device_from_torch")

    for folder in ("warp._src", "warp"):  # the first since warp 1.10
        for name, replace in (("context", replace_runtime), ("torch", replace_torch)):
            context.editor.on_undo(context.when_imported(f"{folder}.{name}", context.editor.later(replace)))
