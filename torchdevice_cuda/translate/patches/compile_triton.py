"""``torch.compile`` with Triton code: inductor generates for the virtual GPU what it generates for a real one."""

from __future__ import annotations

import importlib.util
import os
import types
from typing import Any

import torch

from ..._compat import present
from ...drivers.traits import Trait
from ...drivers.unavailable import DriverUnavailable
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

_ALLOCATE = "_empty_strided_cuda"
_HEURISTICS = "torch._inductor.runtime.triton_heuristics"
_UTILS, _WORKERS = "torch._inductor.utils", "python_subprocess_env"
_CONFIG, _LAUNCHER, _THREADS = "torch._inductor.config", "use_static_cuda_launcher", "compile_threads"


@patch(f"torch._C._dynamo.guards.{_ALLOCATE}", traits=Trait.TRITON_CODE)
def allocation(context: Context) -> None:
    """Compiled code allocates by a function that CPU builds refuse, and that asks a real GPU for memory in others."""
    if importlib.util.find_spec("triton") is None:
        raise DriverUnavailable(
            "--compile=triton needs the package triton, not installed here; pip install triton, or use --compile=cpp"
        )
    empty_strided, device = torch._C._VariableFunctions.empty_strided, torch.device("cuda")

    def allocate(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        return empty_strided(size, stride, dtype=dtype, device=device)

    guards = torch._C._dynamo.guards
    for name in present(guards, (_ALLOCATE,)):
        context.editor.set(guards, name, copy_metadata(allocate, getattr(guards, name)))


@patch(f"{_CONFIG}.{_LAUNCHER}", f"{_CONFIG}.{_THREADS}", traits=Trait.TRITON_CODE)
def launcher(context: Context) -> None:
    """Torch's own launcher hands a cubin to NVIDIA's driver; Triton's asks ours.

    Where child processes are not activated, as with ``activate()``, kernels are compiled in this one.
    """

    def choose(config: types.ModuleType) -> None:
        for name in present(config, (_LAUNCHER,)):
            context.editor.configure(config, name, False)
        if not os.environ.get("TORCHDEVICE_AUTO"):
            context.editor.configure(config, _THREADS, 1)

    context.editor.on_undo(context.when_imported(_CONFIG, context.editor.later(choose)))


@patch(f"{_HEURISTICS}.cached_autotune", traits=Trait.TRITON_CODE)
def tuning(context: Context) -> None:
    """Times on the host say nothing of a GPU's: inductor's first configuration is taken, unless it is to search."""

    def choose(module: types.ModuleType) -> None:
        original: Function = module.cached_autotune

        def cached_autotune(size_hints: Any, configs: Any, *args: Any, **kwargs: Any) -> Any:
            about = kwargs.get("inductor_meta") or {}
            if not any(about.get(name) for name in ("max_autotune", "max_autotune_pointwise")):
                configs = configs[:1]
            return original(size_hints, configs, *args, **kwargs)

        context.editor.set(module, "cached_autotune", copy_metadata(cached_autotune, original))

    context.editor.on_undo(context.when_imported(_HEURISTICS, context.editor.later(choose)))


@patch(f"{_UTILS}.{_WORKERS}", traits=Trait.TRITON_CODE)
def workers(context: Context) -> None:
    """Inductor's compile workers get this process's ``sys.path``, without the folder that activates child processes."""

    def activate(module: types.ModuleType) -> None:
        original: Function = getattr(module, _WORKERS)

        def python_subprocess_env() -> dict[str, str]:
            env = dict(original())
            paths = [os.environ.get("PYTHONPATH"), env.get("PYTHONPATH")]
            return {**env, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}

        context.editor.set(module, _WORKERS, copy_metadata(python_subprocess_env, original))

    context.editor.on_undo(context.when_imported(_UTILS, context.editor.later(activate)))
