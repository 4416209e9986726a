"""``torch.backends.cuda`` and ``torch.backends.cudnn``: values that they read from functions of CUDA builds."""

from __future__ import annotations

from typing import Any

import torch

from ..._compat import cudnn_users, named, present
from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import install

_PLAN_CACHE_SIZE = 4096  # CUDA's default number of cuFFT plans per device
_PLAN_CACHE = "torch.backends.cuda.cuFFTPlanCache"


@patch(f"{_PLAN_CACHE}.size", f"{_PLAN_CACHE}.max_size", "torch._cufft_clear_plan_cache", traits=Trait.TRANSLATED)
def fft_plan_cache(context: Context) -> None:
    """The FFT plan cache queries the cuFFT library; the host's FFT has no plans, so its size is 0."""
    editor, driver = context.editor, context.driver
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

    # The class stored the C functions in its two attributes when it was defined.
    attributes = vars(cuFFTPlanCache)
    editor.set(attributes["size"], "getter", size, f"{_PLAN_CACHE}.size")
    editor.set(attributes["max_size"], "getter", max_size, f"{_PLAN_CACHE}.max_size")
    editor.set(attributes["max_size"], "setter", set_max_size, f"{_PLAN_CACHE}.max_size")
    editor.set(torch, "_cufft_clear_plan_cache", clear)


@patch("torch._C._is_flash_attention_available", traits=Trait.SUBSTITUTE)
def attention(context: Context) -> None:
    """torch queries its CUDA part for compiled fused attention; the host has its own fused kernel."""
    if named("torch._C._is_flash_attention_available") is not None:
        context.editor.set(torch._C, "_is_flash_attention_available", lambda: True)


#: Functions of torch._C that programs call to choose a kernel, and the kernel's number in ``SDPBackend``.
_FUSED = {"_can_use_flash_attention": 1, "_can_use_mem_efficient_attention": 2, "_can_use_cudnn_attention": 3}


@patch(*(f"torch._C.{name}" for name in _FUSED), traits=Trait.NATIVE | Trait.HOST_MEMORY)
def fused_attention(context: Context) -> None:
    """In a CPU build every fused kernel of CUDA refuses all inputs; the device has these kernels, with CUDA's rules."""
    native = context.driver.native
    if native is None:
        return
    for name, kernel in _FUSED.items():
        if not hasattr(torch._C, name):
            continue

        def taken(params: Any, debug: bool = False, _kernel: int = kernel) -> bool:
            asked = (params.query, params.key, params.value, params.attn_mask, params.dropout, params.is_causal)
            return native.takes_attention(_kernel, *asked, params.enable_gqa, debug)

        taken.__name__ = name
        context.editor.set(torch._C, name, taken)


@patch(*(f"torch._C.{name}" for name in _FUSED), traits=Trait.PARTIAL)
def no_fused_attention(context: Context) -> None:
    """CUDA's fused kernels take no inputs on another GPU; a CUDA build of torch would query cuDNN first."""
    for name in present(torch._C, tuple(_FUSED)):

        def taken(params: Any, debug: bool = False) -> bool:
            return False

        taken.__name__ = name
        context.editor.set(torch._C, name, taken)


#: Of CUDA's libraries that a program may prefer: the getter, the setter, and those that CUDA builds have.
_PREFERRED = (
    ("_get_linalg_preferred_backend", "_set_linalg_preferred_backend", "_LinalgBackend", ("Cusolver", "Magma")),
    ("_get_blas_preferred_backend", "_set_blas_preferred_backend", "_BlasBackend", ("Cublaslt",)),
)


@patch(*(f"torch._C.{name}" for row in _PREFERRED for name in row[:2]), traits=Trait.TRANSLATED)
def preferred_libraries(context: Context) -> None:
    """Builds without CUDA refuse ``preferred_linalg_library("magma")``; here the choice is only remembered."""
    for getter, setter, kind, libraries in _PREFERRED:
        if present(torch._C, (getter, setter, kind)) == [getter, setter, kind]:
            _remember(context, getter, setter, [getattr(getattr(torch._C, kind), name) for name in libraries])


def _remember(context: Context, getter: str, setter: str, known: list[Any]) -> None:
    get, put = getattr(torch._C, getter), getattr(torch._C, setter)
    chosen: list[Any] = []

    def choose(library: Any) -> None:
        if library in known:
            chosen[:] = [library]
        else:
            put(library)
            chosen.clear()

    for name, function in ((getter, lambda: chosen[0] if chosen else get()), (setter, choose)):
        function.__name__ = name
        context.editor.set(torch._C, name, function)


@patch("torch.cudnn_is_acceptable", traits=Trait.NATIVE | Trait.HOST_MEMORY)
def acceptable(context: Context) -> None:
    """In a CPU build cuDNN accepts no tensor. Its C++ code still uses its own answer, since it has no cuDNN."""
    original = torch.cudnn_is_acceptable

    def cudnn_is_acceptable(*args: Any, **kwargs: Any) -> bool:
        refused = original(*args, **kwargs)
        tensor: torch.Tensor = args[0] if args else kwargs["input" if "input" in kwargs else "self"]
        return refused or bool(torch._C._get_cudnn_enabled() and tensor.is_cuda and tensor.numel())

    install(context, torch, "cudnn_is_acceptable", cudnn_is_acceptable, original)


_CUDNN = "torch.backends.cudnn"


@patch(
    *(f"{_CUDNN}.{name}" for name in ("__cudnn_version", "_init", "_cudnn", "rnn._cudnn")),
    "torch.backends.cusparselt._cusparselt",
    traits=Trait.SUBSTITUTE,
)
def cudnn(context: Context) -> None:
    """torch.backends.cudnn looks for its C module once, when it is imported, and keeps the result."""
    from torch.backends import cusparselt

    editor = context.editor
    module, *others = cudnn_users()

    def _init() -> bool:
        vars(module)["__cudnn_version"] = torch._C._cudnn.getVersionInt()
        return True

    editor.set(module, "__cudnn_version", None)
    editor.set(module, "_init", _init)
    for user in (module, *others):
        editor.set(user, "_cudnn", torch._C._cudnn)
    editor.set(cusparselt, "_cusparselt", torch._C._cusparselt)
