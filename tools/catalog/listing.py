"""PyTorch's public callables, as the running torch has them: functions, classes, and the methods of classes."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import types
import warnings
from collections.abc import Iterator
from typing import Any

#: The namespaces that programs are written in, by priority.
NAMESPACES: dict[str, str] = {
    "torch": "core", "torch.Tensor": "core", "torch.cuda": "core", "torch.cuda.amp": "core", "torch.amp": "core",
    "torch.autograd": "core", "torch.autograd.functional": "core", "torch.autograd.graph": "core",
    "torch.autograd.profiler": "core", "torch.autograd.forward_ad": "core",
    "torch.linalg": "core", "torch.fft": "core", "torch.special": "core", "torch.sparse": "core",
    "torch.random": "core", "torch.accelerator": "core", "torch.serialization": "core", "torch.storage": "core",
    "torch.backends": "core", "torch.backends.cuda": "core", "torch.backends.cudnn": "core",
    "torch.backends.mkldnn": "core", "torch.backends.opt_einsum": "core",
    "torch.backends.mps": "core", "torch.cuda.memory": "core", "torch.cuda.nvtx": "core", "torch.cuda.comm": "core",
    "torch.cuda.nccl": "core", "torch.cuda.tunable": "core", "torch.cuda.profiler": "core", "torch.cuda.graphs": "core",
    "torch.cuda.random": "core", "torch.cuda.streams": "core", "torch.cpu": "core", "torch.mps": "core",
    "torch.nn": "neural networks", "torch.nn.functional": "neural networks", "torch.nn.init": "neural networks",
    "torch.nn.utils": "neural networks", "torch.nn.utils.rnn": "neural networks",
    "torch.nn.utils.parametrize": "neural networks", "torch.nn.utils.parametrizations": "neural networks",
    "torch.nn.utils.prune": "neural networks", "torch.nn.utils.stateless": "neural networks",
    "torch.nn.parallel": "neural networks", "torch.nn.attention": "neural networks",
    "torch.nn.attention.bias": "neural networks", "torch.nn.attention.flex_attention": "neural networks",
    "torch.optim": "neural networks", "torch.optim.lr_scheduler": "neural networks",
    "torch.optim.swa_utils": "neural networks",
    "torch.distributions": "the rest", "torch.distributions.transforms": "the rest",
    "torch.distributions.constraints": "the rest", "torch.distributions.kl": "the rest",
    "torch.utils.data": "the rest", "torch.utils.checkpoint": "the rest", "torch.utils.dlpack": "the rest",
    "torch.utils.data.distributed": "the rest", "torch.utils.data.datapipes.iter": "the rest",
    "torch.utils.data.datapipes.map": "the rest", "torch.utils.flop_counter": "the rest",
    "torch.utils.benchmark": "the rest", "torch.utils.hooks": "the rest", "torch.utils._pytree": "the rest",
    "torch.utils.deterministic": "the rest", "torch.utils.module_tracker": "the rest",
    "torch.func": "the rest", "torch.jit": "the rest", "torch.fx": "the rest", "torch.nested": "the rest",
    "torch.masked": "the rest", "torch.profiler": "the rest", "torch.futures": "the rest",
    "torch.library": "the rest", "torch.overrides": "the rest", "torch.testing": "the rest",
    "torch.signal.windows": "the rest", "torch.export": "the rest", "torch.compiler": "the rest",
    "torch.multiprocessing": "the rest", "torch.monitor": "the rest", "torch.package": "the rest",
    "torch.hub": "the rest", "torch.ao.quantization": "the rest", "torch.ao.nn.quantized": "the rest",
    "torch.ao.nn.qat": "the rest", "torch.ao.nn.intrinsic": "the rest", "torch.ao.quantization.observer": "the rest",
    "torch.ao.quantization.fake_quantize": "the rest", "torch.ao.quantization.qconfig": "the rest",
    "torch.quasirandom": "the rest", "torch.distributed": "the rest", "torch.distributed.tensor": "the rest",
    "torch.distributed.fsdp": "the rest", "torch.distributed.device_mesh": "the rest",
    "torch.distributed.checkpoint": "the rest", "torch.distributed.algorithms.join": "the rest",
    "torch.distributed.optim": "the rest", "torch.distributed.nn": "the rest",
    "torch.fx.experimental.symbolic_shapes": "the rest", "torch.fx.passes.shape_prop": "the rest",
    "torch._dynamo": "the rest", "torch.types": "the rest", "torch.functional": "core",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Callable_:
    """A public callable."""

    name: str
    namespace: str
    #: function, class or method
    kind: str

    @property
    def priority(self) -> str:
        return NAMESPACES[self.namespace]


def public(module: Any) -> list[str]:
    """Return the names that a module offers."""
    declared = getattr(module, "__all__", None)
    names = list(declared) if declared else [name for name in vars(module) if not name.startswith("_")]
    return sorted({name for name in names if not name.startswith("_")})


def belongs(value: Any, declared: bool) -> bool:
    """Return whether a module's value is torch's own, not an import."""
    home = getattr(value, "__module__", None) or ""
    return declared or home.partition(".")[0] in ("torch", "") or home == "builtins"


def methods(owner: type) -> Iterator[str]:
    """Return the public methods that a class, or a class of torch above it that is not listed, defines."""
    for name, value in sorted(vars(owner).items()):
        if name.startswith("_") or isinstance(value, (property, types.GetSetDescriptorType)):
            continue
        if callable(value) or isinstance(value, (staticmethod, classmethod)):
            yield name


def listed() -> list[Callable_]:
    """Everything, each once: under the first namespace that offers it."""
    import torch

    found: dict[str, Callable_] = {}
    seen: set[int] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for namespace in NAMESPACES:
            if namespace == "torch.Tensor":
                for name in sorted(dir(torch.Tensor)):
                    if not name.startswith("_") and callable(inspect.getattr_static(torch.Tensor, name)):
                        found[f"{namespace}.{name}"] = Callable_(f"{namespace}.{name}", namespace, "method")
                continue
            try:
                module = importlib.import_module(namespace)
            except ImportError:
                continue
            for name in public(module):
                value = getattr(module, name, None)
                if not callable(value) or id(value) in seen or not belongs(value, hasattr(module, "__all__")):
                    continue
                seen.add(id(value))
                full = f"{namespace}.{name}"
                found[full] = Callable_(full, namespace, "class" if isinstance(value, type) else "function")
                # Classes of tensors by type, as torch.cuda.FloatTensor, have torch.Tensor's methods.
                if isinstance(value, type) and value.__module__.startswith("torch") and hasattr(value, "__mro__"):
                    if issubclass(value, torch.Tensor) or type(value).__name__ == "tensortype":
                        continue
                    for method in methods(value):
                        found[f"{full}.{method}"] = Callable_(f"{full}.{method}", namespace, "method")
    return list(found.values())


def resolve(name: str) -> Any:
    """Resolve a full name to its object, and the class that it is a method of, if any."""
    parts = name.split(".")
    value = importlib.import_module(parts[0])
    for place, part in enumerate(parts[1:], 2):
        # What a module offers under a name is not always the module of that name.
        value = getattr(value, part) if hasattr(value, part) else importlib.import_module(".".join(parts[:place]))
    return value
