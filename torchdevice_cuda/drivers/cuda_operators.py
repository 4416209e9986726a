"""Operators that only CUDA has, or has otherwise: cuDNN's, depthwise convolutions, parts of SyncBatchNorm, and more.

Each is an operator of PyTorch under another name, or composed of several, so it runs on the device if they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import grouped_products, semi_structured

_aten = torch.ops.aten
Tensor = torch.Tensor
Numbers = Sequence[int]
Kernel = Callable[..., Any]


# ---- convolution by the library's name; options of its precision are ignored
def _convolution(
    self: Tensor, weight: Tensor, padding: Numbers, stride: Numbers, dilation: Numbers, groups: int, *exactly: bool
) -> Any:
    return _convolved(self, weight, None, stride, padding, dilation, groups)


def _convolved(
    self: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int,
) -> Any:
    return _aten.convolution(self, weight, bias, stride, padding, dilation, False, [0] * len(padding), groups)


def _convolution_out(
    self: Tensor,
    weight: Tensor,
    padding: Numbers,
    stride: Numbers,
    dilation: Numbers,
    groups: int,
    *exactly: bool,
    out: Tensor,
) -> Any:
    made = _convolved(self, weight, None, stride, padding, dilation, groups)
    return out.resize_(made.shape).copy_(made)


def _transposed(
    self: Tensor,
    weight: Tensor,
    padding: Numbers,
    output_padding: Numbers,
    stride: Numbers,
    dilation: Numbers,
    groups: int,
    *exactly: bool,
) -> Any:
    return _aten.convolution(self, weight, None, stride, padding, dilation, True, output_padding, groups)


def _convolution_relu(*arguments: Any) -> Any:
    return _convolved(*arguments).relu_()


def _convolution_add_relu(
    self: Tensor, weight: Tensor, z: Tensor, alpha: float | None, bias: Tensor | None, *sizes: Any
) -> Any:
    return _convolved(self, weight, bias, *sizes).add_(z, alpha=1 if alpha is None else alpha).relu_()


def _depthwise(
    self: Tensor,
    weight: Tensor,
    kernel_size: Numbers,
    bias: Tensor | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
) -> Any:
    return _convolved(self, weight, bias, stride, padding, dilation, self.shape[1])


# ---- batch normalization and sampling by cuDNN
def _batch_norm(input: Tensor, *arguments: Any) -> Any:
    made, mean, inverse = _aten.native_batch_norm(input, *arguments)
    if not arguments[4]:  # no training: nothing is saved
        mean, inverse = (_aten.empty([0], dtype=saved.dtype, device=_device(input)) for saved in (mean, inverse))
    return made, mean, inverse, _aten.empty([0], dtype=torch.uint8, device=_device(input))


def _batch_norm_backward(
    input: Tensor,
    grad: Tensor,
    weight: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor | None,
    inverse: Tensor | None,
    eps: float,
    reserve: Tensor,
) -> Any:
    given = (grad, input, weight, running_mean, running_var, mean, inverse)
    return _aten.native_batch_norm_backward(*given, True, eps, [True, True, True])


def _affine_grid(theta: Tensor, *size: int) -> Any:
    return _aten.affine_grid_generator(theta, size, True)


def _affine_grid_backward(grad: Tensor, *size: int) -> Any:
    return _aten.affine_grid_generator_backward(grad, size, True)


def _sampled(self: Tensor, grid: Tensor) -> Any:
    return _aten.grid_sampler_2d(self, grid, 0, 0, True)  # bilinear, with zeros outside the border


def _sampled_backward(self: Tensor, grid: Tensor, grad: Tensor) -> Any:
    return _aten.grid_sampler_2d_backward(grad, self, grid, 0, 0, True, [True, True])


# ---- batch normalization over several processes, step by step
_NARROW = (torch.float16, torch.bfloat16)
# torch's own getter: x.device may report another device.
_device: Callable[[Tensor], torch.device] = vars(torch._C.TensorBase)["device"].__get__


def _wide(x: Tensor) -> Tensor:
    """Widen the input of statistics: half precision is not enough."""
    return _as(x, torch.float32) if x.dtype in _NARROW else x


def _as(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype is dtype else _aten._to_copy(x, dtype=dtype)


def _other_dims(x: Tensor) -> list[int]:
    return [dim for dim in range(x.dim()) if dim != 1]


def _by_channel(x: Tensor, like: Tensor) -> Tensor:
    return x.view([-1 if dim == 1 else 1 for dim in range(like.dim())])


def _stats(input: Tensor, eps: float) -> Any:
    var, mean = _aten.var_mean.correction(_wide(input), _other_dims(input), correction=0)
    return mean, (var + eps).rsqrt_()


def _gather_with_counts(
    input: Tensor,
    mean: Tensor,
    inverse: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> Any:
    count = _as(counts, mean.dtype).view([-1, 1])
    total = count.sum()
    together = (mean * count).sum(0) / total
    squares = ((inverse.pow(-2) - eps + (mean - together).pow(2)) * count).sum(0)
    for running, latest in ((running_mean, together), (running_var, squares / (total - 1))):
        if running is not None:
            running.mul_(1 - momentum).add_(_as(latest, running.dtype), alpha=momentum)
    return together, (squares / total + eps).rsqrt_()


def _gather(
    input: Tensor,
    mean: Tensor,
    inverse: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: int,
) -> Any:
    counts = _aten.full([mean.shape[0]], float(count), dtype=mean.dtype, device=_device(mean))
    return _gather_with_counts(input, mean, inverse, running_mean, running_var, momentum, eps, counts)


def _elements(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, inverse: Tensor, eps: float
) -> Any:
    made = (_wide(input) - _by_channel(mean, input)) * _by_channel(inverse, input)
    if weight is not None:
        made = made * _by_channel(weight, input)
    if bias is not None:
        made = made + _by_channel(bias, input)
    return _as(made, input.dtype)


def _elements_out(input: Tensor, *arguments: Any, out: Tensor) -> Any:
    return out.resize_(input.shape).copy_(_elements(input, *arguments))


def _backward_reduce(
    grad: Tensor,
    input: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    of_input: bool,
    of_weight: bool,
    of_bias: bool,
) -> Any:
    wide = _wide(grad)
    total = wide.sum(_other_dims(input))
    with_input = (wide * (_wide(input) - _by_channel(mean, input))).sum(_other_dims(input))
    dtype = total.dtype if weight is None else weight.dtype
    return (
        total if of_input else None,
        with_input if of_input else None,
        _as(with_input * inverse, dtype) if of_weight else None,
        _as(total, dtype) if of_bias else None,
    )


def _backward_elements(
    grad: Tensor,
    input: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    total: Tensor,
    with_input: Tensor,
    counts: Tensor,
) -> Any:
    count = _as(counts.sum(), mean.dtype)
    centred = _wide(input) - _by_channel(mean, input)
    made = _wide(grad) - _by_channel(total / count, input)
    made = made - centred * _by_channel(inverse * inverse * (with_input / count), input)
    scale = inverse if weight is None else inverse * _as(weight, inverse.dtype)
    return _as(made * _by_channel(scale, input), input.dtype)


# ---- cuBLAS
def _activated(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, use_gelu: bool = False
) -> Any:
    """cuBLAS has one gelu, the approximate one."""
    made = _aten.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return _aten.gelu(made, approximate="tanh") if use_gelu else _aten.relu(made)


def _activated_into(*arguments: Any, out: Tensor, **more: Any) -> Any:
    made = _activated(*arguments, **more)
    return out.resize_(made.shape).copy_(made)


#: Kernels by the operator's name.
KERNELS: dict[str, Kernel] = {
    "cudnn_convolution": _convolution,
    "cudnn_convolution.out": _convolution_out,
    "cudnn_convolution_transpose": _transposed,
    "cudnn_convolution_relu": _convolution_relu,
    "cudnn_convolution_add_relu": _convolution_add_relu,
    "_conv_depthwise2d": _depthwise,
    "conv_depthwise3d": _depthwise,
    "cudnn_batch_norm": _batch_norm,
    "cudnn_batch_norm_backward": _batch_norm_backward,
    "cudnn_affine_grid_generator": _affine_grid,
    "cudnn_affine_grid_generator_backward": _affine_grid_backward,
    "cudnn_grid_sampler": _sampled,
    "cudnn_grid_sampler_backward": _sampled_backward,
    "batch_norm_stats": _stats,
    "batch_norm_gather_stats": _gather,
    "batch_norm_gather_stats_with_counts": _gather_with_counts,
    "batch_norm_elemt": _elements,
    "batch_norm_elemt.out": _elements_out,
    "batch_norm_backward_reduce": _backward_reduce,
    "batch_norm_backward_elemt": _backward_elements,
    "_addmm_activation": _activated,
    "_addmm_activation.out": _activated_into,
    **grouped_products.KERNELS,
    **semi_structured.KERNELS,
}


def register(
    key: str, lacking: Callable[[str], bool], kernels: Mapping[str, Kernel] = KERNELS
) -> torch.library.Library:
    """Register the kernels that a dispatch key lacks; return the library that holds them."""
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in kernels.items():
        if torch._C._dispatch_has_kernel(f"aten::{name}") and lacking(f"aten::{name}"):
            library.impl(name, kernel, key)
    return library
