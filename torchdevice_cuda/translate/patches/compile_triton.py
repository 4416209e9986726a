"""``torch.compile`` with Triton code: inductor generates for the virtual GPU what it generates for a real one."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import types
from pathlib import Path
from typing import Any

import torch

from ... import settings
from ..._compat import present
from ...drivers.traits import Trait
from ...drivers.unavailable import DriverUnavailable
from ...triton.absent import advise
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

_ALLOCATE = "_empty_strided_cuda"
_HEURISTICS = "torch._inductor.runtime.triton_heuristics"
_UTILS, _WORKERS = "torch._inductor.utils", "python_subprocess_env"
_CONFIG, _LAUNCHER, _THREADS = "torch._inductor.config", "use_static_cuda_launcher", "compile_threads"
_GRAPH = "torch._inductor.graph"
_TASKS, _COMPILE = "torch._inductor.runtime.compile_tasks", "_worker_compile_triton"
#: A folder whose ``sitecustomize`` activates processes that have it on their path.
_CHILDREN = Path(__file__).parents[2] / "children"


@patch(f"torch._C._dynamo.guards.{_ALLOCATE}", traits=Trait.TRITON_CODE)
def allocation(context: Context) -> None:
    """Compiled code allocates by a function that CPU builds refuse, and that asks a real GPU for memory in others."""
    if importlib.util.find_spec("triton") is None:
        raise DriverUnavailable(f"--compile=triton needs the package triton ({advise()}), or use --compile=cpp")
    empty_strided, device = torch._C._VariableFunctions.empty_strided, torch.device("cuda")

    def allocate(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        return empty_strided(size, stride, dtype=dtype, device=device)

    guards = torch._C._dynamo.guards
    for name in present(guards, (_ALLOCATE,)):
        context.editor.set(guards, name, copy_metadata(allocate, getattr(guards, name)))


@patch(f"{_CONFIG}.{_LAUNCHER}", traits=Trait.TRITON_CODE)
def launcher(context: Context) -> None:
    """Torch's own launcher hands a cubin to NVIDIA's driver; Triton's asks ours."""

    def choose(config: types.ModuleType) -> None:
        for name in present(config, (_LAUNCHER,)):
            context.editor.configure(config, name, False)

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


@patch(f"{_GRAPH}.GraphLowering.__init__", traits=Trait.TRITON_CODE)
def wrappers(context: Context) -> None:
    """With ``cpp_wrapper``, C++ around the kernels has NVIDIA's driver launch them; Python around them asks ours."""

    def choose(module: types.ModuleType) -> None:
        original: Function = module.GraphLowering.__init__

        def init(self: Any, gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> None:
            if kwargs.get("cpp_wrapper") and not kwargs.get("aot_mode") and _uses_gpu(gm):
                kwargs["cpp_wrapper"] = False
            original(self, gm, *args, **kwargs)

        context.editor.set(module.GraphLowering, "__init__", copy_metadata(init, original))

    context.editor.on_undo(context.when_imported(_GRAPH, context.editor.later(choose)))


def _uses_gpu(gm: torch.fx.GraphModule) -> bool:
    values = (node.meta.get("val") for node in gm.graph.nodes)
    return any(isinstance(value, torch.Tensor) and value.device.type == "cuda" for value in values)


@patch(f"{_HEURISTICS}.CachingAutotuner.precompile", traits=Trait.TRITON_CODE)
def loading(context: Context) -> None:
    """A compile worker sends kernels without their functions, and writes their TTIR into a cache of its own."""

    def complete(module: types.ModuleType) -> None:
        original: Function = module.CachingAutotuner.precompile

        def precompile(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self.fn.fn is None:
                self.fn.reload_kernel = kwargs.get("reload_kernel")
                for result in self.compile_results:
                    result.kernel.src.ttir = result.kernel.asm["ttir"]
            return original(self, *args, **kwargs)

        context.editor.set(module.CachingAutotuner, "precompile", copy_metadata(precompile, original))

    context.editor.on_undo(context.when_imported(_HEURISTICS, context.editor.later(complete)))


@patch(f"{_CONFIG}.{_THREADS}", traits=Trait.TRITON_CODE)
def threads(context: Context) -> None:
    """Where no function gives compile workers their environment, nothing activates them: this process compiles."""

    def choose(module: types.ModuleType) -> None:
        if not hasattr(module, _WORKERS):
            context.editor.configure(importlib.import_module(_CONFIG), _THREADS, 1)

    context.editor.on_undo(context.when_imported(_UTILS, context.editor.later(choose)))


@patch(f"{_UTILS}.{_WORKERS}", traits=Trait.TRITON_CODE)
def workers(context: Context) -> None:
    """Inductor's compile workers get this process's environment and ``sys.path``, which need not activate them."""

    def activate(module: types.ModuleType) -> None:
        if not hasattr(module, _WORKERS):
            return
        original: Function = getattr(module, _WORKERS)

        def python_subprocess_env() -> dict[str, str]:
            env = dict(original())
            paths = [os.environ.get("PYTHONPATH"), env.get("PYTHONPATH")]
            if not env.get("TORCHDEVICE_AUTO"):  # the program itself called activate()
                for variable in (variable for option in settings.OPTIONS for variable in option.variables):
                    env.pop(variable, None)
                env |= {**settings.as_environment(context.settings), "TORCHDEVICE_AUTO": "1"}
                paths.insert(0, str(_CHILDREN))
            return {**env, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}

        context.editor.set(module, _WORKERS, copy_metadata(python_subprocess_env, original))

    context.editor.on_undo(context.when_imported(_UTILS, context.editor.later(activate)))


@patch(f"{_TASKS}.{_COMPILE}", traits=Trait.TRITON_CODE)
def compilation(context: Context) -> None:
    """A compile worker compiles a kernel for the GPU; it compiles it for the host, too, so that no launch waits."""

    def extend(module: types.ModuleType) -> None:
        original: Function = getattr(module, _COMPILE)

        def compile_triton(*args: Any, **kwargs: Any) -> Any:
            from ...triton.compiler.ir import Unsupported
            from ...triton.compiler.launch import Compiled

            found = original(*args, **kwargs)
            for result in found[0].compile_results if found else ():  # torch 2.6 returns nothing
                kernel = result.kernel
                with contextlib.suppress(Unsupported):  # the launch reports it
                    Compiled(kernel.asm["ttir"], kernel.metadata.name, bool(kernel.metadata.enable_fp_fusion))
            return found

        context.editor.set(module, _COMPILE, copy_metadata(compile_triton, original))

    if context.settings.triton == "compiled":
        context.editor.on_undo(context.when_imported(_TASKS, context.editor.later(extend)))
