"""The library and the memory format of a convolution, which torch queries before it computes one."""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

_ARGUMENTS = ("input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups")
#: PyTorch's choice for CUDA without cuDNN, and with it.
_WITH_CUDNN = {
    "Slow2d": "Cudnn",
    "SlowDilated2d": "Cudnn",
    "SlowDilated3d": "Cudnn",
    "SlowTranspose2d": "CudnnTranspose",
    "SlowTranspose3d": "CudnnTranspose",
}
#: PyTorch's own depthwise kernels. cuDNN's are for channels-last memory.
_DEPTHWISE = ("CudaDepthwise2d", "CudaDepthwise3d")
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _spread(values: Any, dimensions: int) -> list[Any]:
    """Return a value for each dimension, given one for all or one each."""
    return [*values] * dimensions if len(values) == 1 else [*values]


def _suggested(input: torch.Tensor, weight: torch.Tensor) -> torch.memory_format:
    """Return the memory format of cuDNN's result: channels last if one argument is, but never for float64."""
    wanted = _CHANNELS_LAST.get(weight.dim())
    if wanted is None or torch.float64 in (input.dtype, weight.dtype):
        return torch.contiguous_format
    return wanted if wanted in map(suggest_memory_format, (input, weight)) else torch.contiguous_format


@patch(
    "torch._C._select_conv_backend",
    "torch._C._conv_determine_backend_memory_format",
    traits=Trait.NATIVE | Trait.HOST_MEMORY,
    without=Trait.TRANSLATED,
)
def choice(context: Context) -> None:
    """A CPU build never chooses cuDNN, and returns another memory format for meta tensors (torch.compile's)."""
    select: Function = torch._C._select_conv_backend
    determine: Function = torch._C._conv_determine_backend_memory_format
    backends: Any = vars(torch._C)["_ConvBackend"]  # torch's annotations use another name
    driver = context.driver

    def has_bfloat16(device: torch.device) -> bool:
        return driver.facts(device.index or 0).major >= 8

    def _select_conv_backend(*args: Any, **kwargs: Any) -> Any:
        chosen = select(*args, **kwargs)
        given = {**dict(zip(_ARGUMENTS, args, strict=False)), **kwargs}
        input, weight = given["input"], given["weight"]
        if not input.is_cuda or not torch._C._get_cudnn_enabled():
            return chosen
        if torch.bfloat16 in (input.dtype, weight.dtype) and not has_bfloat16(input.device):
            return chosen
        if chosen.name in _DEPTHWISE:
            return chosen if _suggested(input, weight) is torch.contiguous_format else backends.Cudnn
        padding, stride = (_spread(given[name], weight.dim() - 2) for name in ("output_padding", "stride"))
        if any(more >= step for more, step in zip(padding, stride, strict=True)):
            return chosen  # cuDNN does not support this
        return getattr(backends, _WITH_CUDNN.get(chosen.name, chosen.name))

    def _conv_determine_backend_memory_format(input: torch.Tensor, weight: torch.Tensor, backend: Any) -> Any:
        if input.is_cuda and backend in (backends.Cudnn, backends.CudnnTranspose):
            return _suggested(input, weight)
        return determine(input, weight, backend)

    for wrapper, original in (
        (_select_conv_backend, select),
        (_conv_determine_backend_memory_format, determine),
    ):
        context.editor.set(torch._C, original.__name__, copy_metadata(wrapper, original))
