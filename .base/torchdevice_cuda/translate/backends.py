"""``torch.backends.cuda`` and ``torch.backends.cudnn``: what they read from functions of CUDA builds."""

from __future__ import annotations

import functools
import sys
from typing import Any

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise

_PLAN_CACHE_SIZE = 4096  # cuFFT plans CUDA keeps per device unless told otherwise


@patch("cpu", "mps")
def fft_plan_cache(editor: Editor, driver: Driver) -> None:
    """The plan cache of FFTs asks the cuFFT library; the host's FFT keeps no plans, and its size says so."""
    import torch

    largest: dict[int, int] = {}

    def checked(device: int) -> int:
        count = driver.device_count()
        if not 0 <= device < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got device with index {device}"
            )
        return device

    def max_size(device_index: int) -> int:
        return largest.get(checked(device_index), _PLAN_CACHE_SIZE)

    def set_max_size(device_index: int, max_size: int) -> None:
        largest[checked(device_index)] = max_size

    def size(device_index: int) -> int:
        checked(device_index)
        return 0

    def clear(device_index: int) -> None:
        checked(device_index)

    from torch.backends.cuda import cuFFTPlanCache

    # The class took the C functions when it was defined; its two attributes hold them.
    attributes = vars(cuFFTPlanCache)
    editor.set(attributes["size"], "getter", size)
    editor.set(attributes["max_size"], "getter", max_size)
    editor.set(attributes["max_size"], "setter", set_max_size)
    editor.set(torch, "_cufft_clear_plan_cache", clear)


@patch()
def attention(editor: Editor, driver: Driver) -> None:
    """Whether fused attention is compiled in is asked of the CUDA part of torch; the host has its own fused kernel."""
    import torch

    if hasattr(torch._C, "_is_flash_attention_available"):
        editor.set(torch._C, "_is_flash_attention_available", lambda: True)


@patch()
def profiler_activities(editor: Editor, driver: Driver) -> None:
    """Programs ask the profiler for CUDA activity if it is supported; here it records the host doing that work.

    The profiler itself asks too, under a name of its own: told no, it times every operator with CUDA events, which a
    CPU build cannot make, and prints a warning with a stack for each.
    """
    import torch.autograd.profiler
    import torch.profiler

    original = torch.autograd._supported_activities

    def _supported_activities() -> set[torch.profiler.ProfilerActivity]:
        return {*original(), torch.profiler.ProfilerActivity.CUDA}

    replacement = disguise(_supported_activities, original)
    for module in (torch.autograd, torch.autograd.profiler, torch.profiler):
        if getattr(module, "_supported_activities", None) is original:
            editor.set(module, "_supported_activities", replacement)


@patch()
def profiler_events(editor: Editor, driver: Driver) -> None:
    """``autograd.profiler.profile(use_device="cuda")`` times operators with CUDA events; here the host's clock does."""
    from torch.autograd.profiler import ProfilerState, profile

    original = profile.__init__

    def __init__(self: profile, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        # Absent on a profile that is not enabled.
        if getattr(self, "profiler_kind", None) is ProfilerState.KINETO_GPU_FALLBACK:
            self.profiler_kind = ProfilerState.KINETO

    editor.set(profile, "__init__", functools.wraps(original)(__init__))


@patch()
def cudnn(editor: Editor, driver: Driver) -> None:
    """torch.backends.cudnn looks for its C module once, when it is imported, and keeps what it found."""
    import torch
    from torch.backends import cudnn as backend
    from torch.backends import cusparselt

    home = getattr(backend, "m", backend)  # the settings object wraps the module proper

    def _init() -> bool:
        vars(home)["__cudnn_version"] = torch._C._cudnn.getVersionInt()
        return True

    editor.set(home, "__cudnn_version", None)
    editor.set(home, "_init", _init)
    for module in (home, sys.modules.get("torch.backends.cudnn.rnn")):
        if module is not None:  # torch 2.10 and older import it with the first recurrent layer
            editor.set(module, "_cudnn", torch._C._cudnn)
    editor.set(cusparselt, "_cusparselt", torch._C._cusparselt)


@patch()
def nvtx_ranges(editor: Editor, driver: Driver) -> None:
    """``emit_nvtx`` starts a profiler that only CUDA builds have; with no NVTX tool attached nobody sees its ranges."""
    import torch
    from torch.autograd.profiler import emit_nvtx

    def __enter__(self: emit_nvtx) -> emit_nvtx | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("NVTX annotation context manager is not reentrant")
        self.entered = True
        torch.cuda.synchronize()
        return self

    def __exit__(self: emit_nvtx, kind: object, value: object, traceback: object) -> bool | None:
        if not self.enabled:
            return None
        torch.cuda.synchronize()
        return False

    editor.set(emit_nvtx, "__enter__", __enter__)
    editor.set(emit_nvtx, "__exit__", __exit__)
