"""The changes of torch, in files named after its modules: all changes of a name are in one file."""

from __future__ import annotations

import importlib

from ..core.registry import Patch, of_module

#: In the order in which their patches are applied. It matters at both ends: a device that torch was built without is
#: announced before other patches use it, and names that the program imported earlier are rebound after all changes.
MODULES = (
    "mps",
    "version",
    "streams",
    "accelerator",
    "backends",
    "convolution",
    "profiler",
    "factories",
    "default_device",
    "tensor.moves",
    "tensor.new",
    "tensor.conversion",
    "tensor.copies",
    "tensor.exchange",
    "tensor.pinning",
    "identity",
    "random",
    "storage",
    "legacy_types",
    "nested",
    "nn_module",
    "nn_parallel",
    "nn_rnn",
    "serialization",
    "amp",
    "optim",
    "distributed",
    "simulated_ranks",
    "fsdp",
    "rpc",
    "compile",
    "cpp_extension",
    "triton",
    "compile_triton",
    "other_kernels",
    "other_libraries",
    "speeds",
    "jit",
    "library",
    "dataloader",
    "multiprocessing",
    "errors",
    "operators",
    "names",
)


def registered() -> tuple[Patch, ...]:
    """List every patch, in order."""
    names = [f"{__name__}.{module}" for module in MODULES]
    for name in names:
        importlib.import_module(name)
    return tuple(patch for name in names for patch in of_module(name))
