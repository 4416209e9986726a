"""Everything that depends on the version of torch or of its CUDA build, in one place.

Importing this imports no torch: the shadow tree asks while torch is being imported, activation before that.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

MINIMUM = (2, 6)
NEWEST_KNOWN = (2, 15)


@dataclasses.dataclass(frozen=True)
class Build:
    """The libraries of a torch release's default Linux wheel, from this release on."""

    since: tuple[int, int]
    cuda: str
    nccl: tuple[int, int, int]
    cudnn: tuple[int, int, int]
    cusparselt: int


# A CPU build has none of these libraries of its own, and programs read their versions to choose code paths.
_BUILDS: tuple[Build, ...] = (
    Build((2, 15), "13.2", (2, 30, 7), (9, 26, 0), 801),
    Build((2, 14), "13.0", (2, 30, 7), (9, 24, 0), 801),
    Build((2, 12), "13.0", (2, 29, 7), (9, 20, 0), 801),
    Build((2, 11), "13.0", (2, 28, 9), (9, 19, 0), 800),
    Build((2, 9), "12.8", (2, 27, 5), (9, 10, 2), 701),
    Build((2, 8), "12.8", (2, 27, 3), (9, 10, 2), 701),
    Build((2, 7), "12.6", (2, 26, 2), (9, 5, 1), 603),
    Build((2, 6), "12.4", (2, 21, 5), (9, 1, 0), 602),
)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file of TOML: Python can since 3.11, before that a package of the same author does."""
    reader = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    found: dict[str, Any] = reader.loads(path.read_text(encoding="utf-8"))
    return found


def torch_release(version: str) -> tuple[int, int]:
    """``(major, minor)`` of a torch version string such as ``2.13.0+cpu``."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"torch version {version!r} has no major and minor number")
    return int(match[1]), int(match[2])


def is_too_old(version: str) -> bool:
    """Return whether a torch release is older than we support."""
    return torch_release(version) < MINIMUM


def _build(version: str) -> Build:
    release = torch_release(version)
    return next((build for build in _BUILDS if release >= build.since), _BUILDS[-1])


def cuda_version(version: str) -> str:
    """Return the CUDA version that goes with a torch release, such as ``12.8``."""
    return _build(version).cuda


def nccl_version(version: str) -> tuple[int, int, int]:
    """Return the NCCL version that goes with a torch release."""
    return _build(version).nccl


def cudnn_version(version: str) -> tuple[int, int, int]:
    """Return the cuDNN version that goes with a torch release."""
    return _build(version).cudnn


def cusparselt_version(version: str) -> int:
    """Return the cuSPARSELt version that goes with a torch release, as one number."""
    return _build(version).cusparselt


# ----------------------------------------------------------------------------- macOS
#: The oldest macOS on which torch uses an Apple GPU, from this release on. ``tools/mac_wheel`` reads it in the wheels.
_MACOS: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (
    ((2, 15), (15, 0)),
    ((2, 9), (14, 0)),
    ((2, 6), (13, 0)),
)
#: The last release of torch for Macs with an Intel processor.
LAST_FOR_INTEL_MACS = "2.2.2"


def least_macos(version: str) -> tuple[int, int]:
    """Return the oldest macOS on which a torch release uses an Apple GPU."""
    release = torch_release(version)
    return next((macos for since, macos in _MACOS if release >= since), _MACOS[-1][1])


def newest_for_macos(macos: tuple[int, int]) -> tuple[int, int] | None:
    """Return the newest known torch release that uses an Apple GPU on a macOS; ``None`` if no supported one does."""
    first_later = (NEWEST_KNOWN[0], NEWEST_KNOWN[1] + 1)
    for since, needed in _MACOS:
        if macos >= needed:
            return first_later[0], first_later[1] - 1
        first_later = since
    return None


# ------------------------------------------------------------ names that come and go
def accelerator_error() -> type[RuntimeError]:
    """Return the type of CUDA's own errors: a type of torch since 2.8, a plain ``RuntimeError`` before."""
    import torch._C

    found: type[RuntimeError] = getattr(torch._C, "AcceleratorError", RuntimeError)
    return found


def no_raw_graph(version: str, kept: bool) -> str:
    """Return CUDA's message for a graph that was not captured, or not created to be kept."""
    if torch_release(version) >= (2, 14):
        return (
            "No cudaGraph_t is available: either capture_end() has not been called, or the underlying cudaGraph_t was "
            "destroyed (keep_graph=false, and capture has been finalized)."
        )
    before = "until capture_end() has been called" if kept else "unless CUDAGraph was initialized with keep_graph=true"
    return f"You cannot access the raw cudaGraph_t instance {before}"


#: The signature of a green context's ``create`` in C++ bindings, and its arguments; since 2.12, and before.
PARTS_OF_A_GPU_BY_NAME: tuple[str, tuple[str, ...]] = (
    "(*, device_id: typing.SupportsInt | None = None, num_sms: typing.SupportsInt | None = None, workqueue_scope: "
    "str | None = None, workqueue_concurrency_limit: typing.SupportsInt | None = None) -> torch._C._CUDAGreenContext",
    ("device_id", "num_sms", "workqueue_scope", "workqueue_concurrency_limit"),
)
PARTS_OF_A_GPU_IN_ORDER: tuple[str, tuple[str, ...]] = (
    "(arg0: typing.SupportsInt, arg1: typing.SupportsInt | None) -> torch._C._CUDAGreenContext",
    ("num_sms", "device_id"),
)


def green_context_takes_keywords(version: str) -> bool:
    """Return whether a green context is created with keywords: since 2.12."""
    return torch_release(version) >= (2, 12)


def green_context_stream_count(version: str) -> int:
    """Return the number of streams of a green context: 16 on an H200 with 2.11; torch has 32 since 2.12."""
    return 32 if torch_release(version) >= (2, 12) else 16


def counts_rejections(version: str) -> bool:
    """Return whether statistics of memory count what was rejected before it was tried: since 2.13."""
    return torch_release(version) >= (2, 13)


def raw_sizes_are_signed(version: str) -> bool:
    """Return whether CUDA refuses negative sizes of raw memory: since 2.13. Before, it read them as unsigned."""
    return torch_release(version) >= (2, 13)


def process_groups_ask_backends(version: str) -> bool:
    """Return whether a process group has the rank and size of its backend, as in 2.15. Until 2.13 it kept its own."""
    return torch_release(version) >= (2, 14)


def blas_lt_has_own_workspace(version: str) -> bool:
    """Return whether cuBLASLt takes a workspace besides cuBLAS's."""
    return torch_release(version) < (2, 12)


def wraps_null_streams(version: str) -> bool:
    """Return whether ``ExternalStream(0)`` is the default stream: since 2.13. Before, it was a new one of the pool."""
    return torch_release(version) >= (2, 13)


#: Methods that the C++ class of CUDA graphs has since a release; programs test for them.
_METHODS_OF_GRAPHS = {
    (2, 8): ("instantiate", "raw_cuda_graph"),
    (2, 9): ("raw_cuda_graph_exec",),
    (2, 12): ("begin_capture_to_if_node", "end_capture_to_conditional_node", "get_currently_capturing_graph"),
    (2, 14): (
        "begin_capture_to_while_node",
        "capture_end_post",
        "capture_end_pre",
        "pools",
        "set_conditional_handle_for_current_node",
        "_has_graph_exec",
        "_retain_pool",
    ),
}


def methods_of_later_graphs(version: str) -> list[str]:
    """Return the methods of graphs that a release does not have yet."""
    release = torch_release(version)
    return [name for since, names in _METHODS_OF_GRAPHS.items() if since > release for name in names]


def instantiates_by_itself(version: str) -> bool:
    """Return whether torch's Python ends a capture in parts, makes it ready, and replays only what is."""
    return torch_release(version) >= (2, 14)


def generators_are_built_in() -> bool:
    """Return whether torch creates generators only of devices that it was built for, as 2.6 does, without hooks."""
    import torch._C

    try:
        torch._C.Generator("meta")
    except RuntimeError as error:
        return "not supported for torch.Generator()" in str(error)
    return False


#: Names that releases from one on have, or up to one; what is there is used, what is not is not missed.
NOT_EVERYWHERE: dict[str, str] = {
    "torch.mps.device": "no release yet: torch's own code enters it for tensors on MPS",
    "torch.mps._initialized": "the same",
    "torch._C._is_flash_attention_available": "private: may go",
    "torch._C._accelerator_setAllocatorSettings": "since 2.10; the CUDA allocator's own before",
    "torch._C._mps_is_in_bad_fork": "private: later releases have it",
    "torch._C._mps_get_name": "the same; Metal tells otherwise",
    "torch._C._mps_get_core_count": "the same; IOKit's registry tells otherwise",
    "torch._C._mps_recommendedMaxMemory": "the same; Metal tells otherwise",
    "torch._C._mps_getCurrentStream": "since 2.15; the emulated GPU brings it where torch.mps asks for it",
    "torch._C._mps_setStream": "the same",
    "torch._C._mps_host_alias_storage": "since 2.13; without it code of the host gets copies",
    "torch._C._accelerator_getDeviceStats": "since 2.9; without it peaks are what was seen",
    "torch._C._accelerator_resetPeakStats": "the same",
}


def named(name: str) -> Any | None:
    """Return the object that torch has under one of the names above; ``None`` in a release without it."""
    import torch

    if name not in NOT_EVERYWHERE:
        raise KeyError(f"{name} is in every release, or nobody has said otherwise")
    owner, _, attribute = name.removeprefix("torch.").rpartition(".")
    return getattr(getattr(torch, owner), attribute, None)


def present(owner: Any, names: Iterable[str]) -> list[str]:
    """Return the names of an owner that this release has: the lists here cover all releases."""
    return [name for name in names if hasattr(owner, name)]


def event_reducer() -> Callable[[Any], Any] | None:
    """Return the function that pickles an event for another process, if there is one: private since torch 2.15."""
    from torch.multiprocessing import reductions

    found = present(reductions, ("reduce_event", "_reduce_event"))
    return getattr(reductions, found[0]) if found else None


def cudnn_users() -> list[ModuleType]:
    """Return the modules that hold cuDNN's C module; torch 2.10 and older import one with the first recurrent layer.

    Objects with settings wrap the modules proper: newer releases have one for recurrent layers, too.
    """
    from torch.backends import cudnn

    found = (cudnn, sys.modules.get("torch.backends.cudnn.rnn"))
    return [getattr(module, "m", module) for module in found if module is not None]


def forget_derived() -> None:
    """Have torch derive its sets of overridable functions again; where they are kept is each release's own affair."""
    for module in ("torch.overrides", "torch._dynamo.trace_rules", "torch._dynamo.variables.torch"):
        for name in _DERIVED:
            cached: Any = getattr(sys.modules.get(module), name, None)
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()


_DERIVED = (
    "get_ignored_functions",
    "get_testing_overrides",
    "_get_overridable_functions",
    "get_overridable_functions",
    "_get_tensor_methods",
    "get_tensor_method",
)

#: Dynamo's tables of functions that it folds into constants: dictionaries in some releases, made when first used in
#: others.
FOLDED_BY_DYNAMO = ("constant_fold_functions", "constant_fold_functions_need_guards")


# ------------------------------------------------------------------ the dispatcher
def knows_dispatch_key(key: str) -> bool:
    """Return whether torch has a dispatch key of this name: those of sparse tensors on MPS came after 2.6."""
    import torch

    try:
        torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.Tensor", key)
    except RuntimeError:
        return False
    return True


def kernels_can_be_called() -> bool:
    """Return whether a kernel can call the one that it overrides: ``torch.library.get_kernel``, since 2.10."""
    import torch

    return hasattr(torch.library, "get_kernel")


def effect_of(operator: Any) -> Any | None:
    """Return the kind of side effect that an operator was registered with: in a separate table until 2.9."""
    from torch._higher_order_ops import effects

    if hasattr(effects, "_get_effect"):
        return effects._get_effect(operator)
    return vars(effects)["SIDE_EFFECTS"].get(operator)


def register_effect(operator: Any, effect: Any) -> None:
    """Register an operator to have a kind of side effect."""
    from torch._higher_order_ops import effects

    effects._register_effectful_op(operator, effect)


def reduction_number(boxed: Any) -> int | None:
    """Return the reduction of a collective operator's argument; ``None`` in releases that hide it from Python."""
    return int(boxed.op()) if hasattr(boxed, "op") else None


def nccl_groups(module: ModuleType) -> tuple[str, ...]:
    """Return the classes that ``torch.distributed`` makes groups of NCCL with: one until 2.14, three since."""
    first = "ProcessGroupNCCL"
    return (first, f"{first}2", f"{first}Lazy") if hasattr(module, "_create_nccl2_process_group") else (first,)


def cxx_standard(version: str) -> str:
    """Return the C++ standard that torch's headers are written in: they use C++20's since 2.12."""
    return "c++20" if torch_release(version) >= (2, 12) else "c++17"
