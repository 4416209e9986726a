"""``torch.profiler`` and ``torch.autograd.profiler``: their queries of CUDA."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.autograd.profiler
import torch.profiler
from torch.autograd import profiler_legacy
from torch.autograd.profiler import emit_nvtx, profile

from ... import rehearsal
from ...drivers import Driver
from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

#: Kineto's log level for no messages.
_SILENT = "5"
_ASKING = (torch.autograd, torch.autograd.profiler, torch.profiler)


@patch(*(f"{module.__name__}._supported_activities" for module in _ASKING), traits=Trait.SUBSTITUTE)
def activities(context: Context) -> None:
    """Programs request CUDA activity from the profiler if it is supported: it is, if the device is compiled here.

    Elsewhere the host's work is recorded. The profiler itself queries too, under its own name: without support it times
    every operator with CUDA events, which a CPU build lacks, and prints a warning with a stack for each.
    """
    original: Callable[[], set[torch.profiler.ProfilerActivity]] = vars(torch.autograd)["_supported_activities"]

    cuda = torch.profiler.ProfilerActivity.CUDA

    def _supported_activities() -> set[torch.profiler.ProfilerActivity]:
        return {*original(), cuda}

    replacement = copy_metadata(_supported_activities, original)
    for module in _ASKING:
        if getattr(module, "_supported_activities", None) is original:
            context.editor.set(module, "_supported_activities", replacement)


@patch("torch.autograd.profiler.profile.__init__", traits=Trait.TRANSLATED)
def events(context: Context) -> None:
    """``autograd.profiler.profile(use_device="cuda")`` times operators with CUDA events; here the host's clock does."""
    original = profile.__init__
    cuda, host = torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU
    states: Any = vars(torch.autograd.profiler)["ProfilerState"]  # which torch's stubs do not export

    def __init__(self: profile, *args: Any, **kwargs: Any) -> None:
        # A CUDA build's Kineto complains that there is no driver, whatever it records.
        os.environ.setdefault("KINETO_LOG_LEVEL", _SILENT)
        original(self, *args, **kwargs)
        # Missing on a profile that is not enabled.
        if getattr(self, "profiler_kind", None) is states.KINETO_GPU_FALLBACK:
            self.profiler_kind = states.KINETO
        # A CUDA build would start CUPTI, which looks for NVIDIA's driver. The host does the work that CUPTI would
        # record.
        if hasattr(self, "kineto_activities"):
            self.kineto_activities = (self.kineto_activities - {cuda}) or {host}

    context.editor.set(profile, "__init__", functools.wraps(original)(__init__))


@patch(
    "torch.autograd.profiler.profile.__init__",
    "torch.autograd.profiler.profile._prepare_trace",
    "torch.autograd.profiler.emit_nvtx.__enter__",
    "torch.autograd.profiler_legacy.profile._start_trace",
    traits=Trait.HOST_MEMORY | Trait.NATIVE,
)
def device_profiled(context: Context) -> None:
    """The device's part of profilers is loaded with the first profiler. A trace lists its devices.

    Kineto queries NVIDIA's runtime for them.
    """
    native, driver = context.driver.native, context.driver
    if native is None:  # no device is visible to the program
        return
    original: Callable[[profile], None] = vars(profile)["_prepare_trace"]
    said: list[str] = []

    def _prepare_trace(self: profile) -> None:
        if torch.profiler.ProfilerActivity.CUDA in self.kineto_activities:
            native.describe_devices(_properties(driver))
            if (note := rehearsal.describe_error()) and not said:
                said.append(note)
                print(f"torchdevice_cuda: {note}", file=sys.stderr)
        original(self)

    context.editor.set(profile, "_prepare_trace", functools.wraps(original)(_prepare_trace))

    def load_first(owner: Any, name: str) -> None:
        stock: Function = vars(owner)[name]

        def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
            native.load_part("profiling")
            return stock(self, *args, **kwargs)

        context.editor.set(owner, name, functools.wraps(stock)(begin))

    # Load before PyTorch starts Kineto, which would look for NVIDIA's driver.
    load_first(profile, "__init__")
    load_first(emit_nvtx, "__enter__")
    load_first(profiler_legacy.profile, "_start_trace")


def _properties(driver: Driver) -> str:
    """Return the members of Kineto's ``deviceProperties``, with commas between."""
    shown = []
    for index in range(driver.device_count()):
        facts = driver.facts(index)
        properties = {
            "id": index,
            "name": facts.name,
            "totalGlobalMem": facts.total_memory,
            "computeMajor": facts.major,
            "computeMinor": facts.minor,
            "maxThreadsPerBlock": facts.max_threads_per_block,
            "maxThreadsPerMultiprocessor": facts.max_threads_per_multi_processor,
            "regsPerBlock": facts.regs_per_multiprocessor,
            "warpSize": facts.warp_size,
            "sharedMemPerBlock": facts.shared_memory_per_block,
            "numSms": facts.multi_processor_count,
            "regsPerMultiprocessor": facts.regs_per_multiprocessor,
            "sharedMemPerBlockOptin": facts.shared_memory_per_block_optin,
            "sharedMemPerMultiprocessor": facts.shared_memory_per_multiprocessor,
        }
        if note := rehearsal.describe_error():
            properties["predicted"] = note
        shown.append(json.dumps(properties))
    return ", ".join(shown)


@patch("torch.autograd.profiler.profile.toggle_collection_dynamic", traits=Trait.HOST_MEMORY | Trait.NATIVE)
def pausing(context: Context) -> None:
    """Recording of the device must pause, too: Kineto pauses CUPTI only."""
    native = context.driver.native
    original = getattr(profile, "toggle_collection_dynamic", None)
    if native is None or original is None:
        return
    cuda = torch.profiler.ProfilerActivity.CUDA

    def toggle_collection_dynamic(
        self: profile, enabled: bool, activities: Iterable[torch.profiler.ProfilerActivity]
    ) -> Any:
        chosen = set(activities)
        if cuda in chosen and cuda in self.kineto_activities:
            native.pause_profiling(not enabled)
        return original(self, enabled, chosen)

    context.editor.set(profile, "toggle_collection_dynamic", functools.wraps(original)(toggle_collection_dynamic))


#: Prefixes of stack entries that start a program: torchdevice_cuda's, and those of ``python -m``.
_STARTING = ("torchdevice_cuda/launch/", "torchdevice_cuda/__main__.py(", "bin/torchdevice-cuda(", "<frozen runpy>(")


@patch("torch.autograd.profiler._filter_stack_entry", traits=Trait.SUBSTITUTE)
def stacks(context: Context) -> None:
    """A stack begins with the program, not with the code that started it: on a GPU no such frame is below a script."""
    original: Callable[[str], bool] = vars(torch.autograd.profiler)["_filter_stack_entry"]

    def _filter_stack_entry(entry: str) -> bool:
        return original(entry) and not any(start in entry for start in _STARTING) and "/runpy.py(" not in entry

    context.editor.set(torch.autograd.profiler, "_filter_stack_entry", copy_metadata(_filter_stack_entry, original))


@patch(
    "torch.autograd.profiler.emit_nvtx.__enter__", "torch.autograd.profiler.emit_nvtx.__exit__", traits=Trait.TRANSLATED
)
def nvtx_ranges(context: Context) -> None:
    """``emit_nvtx`` starts a profiler that only CUDA builds have; without an NVTX tool its ranges have no effect."""
    synchronize = torch.cuda.synchronize

    def __enter__(self: emit_nvtx) -> emit_nvtx | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("NVTX annotation context manager is not reentrant")
        self.entered = True
        synchronize()
        return self

    def __exit__(self: emit_nvtx, kind: object, value: object, traceback: object) -> bool | None:
        if not self.enabled:
            return None
        synchronize()
        return False

    context.editor.set(emit_nvtx, "__enter__", __enter__)
    context.editor.set(emit_nvtx, "__exit__", __exit__)
