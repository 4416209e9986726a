"""Operators that are computed in a wider type give the type that torch's promotion gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from torchdevice_cuda import contract

DTYPES = (
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.complex32, torch.complex64, torch.complex128),
    *(torch.int64, torch.int8, torch.uint8, torch.bool),
)
SCALARS = (2, 0.1, True, 0.1 + 1j)

#: Rows of the table that take arguments of several types, and how they are called with two.
CALLS: dict[str, dict[str, Callable[[Any, Any], Any]]] = {
    "add": {
        "add": torch.add,
        "add alpha": lambda a, b: torch.add(a, b, alpha=0.1),
        "add large alpha": lambda a, b: torch.add(a, b, alpha=70000),
    },
    "sub": {"sub": torch.sub, "sub alpha": lambda a, b: torch.sub(a, b, alpha=0.1)},
    "rsub": {
        "rsub": torch.rsub,
        "rsub alpha": lambda a, b: torch.rsub(a, b, alpha=0.1),
        "rsub large alpha": lambda a, b: torch.rsub(a, b, alpha=70000),
    },
    "mul": {"mul": torch.mul},
    "div": {
        "div": torch.div,
        "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
        "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    },
    "floor_divide": {"floor_divide": torch.floor_divide},
    "pow": {"pow": torch.pow},
    "xlogy": {"xlogy": torch.xlogy},
    "ldexp": {"ldexp": torch.ldexp},
    "lerp": {"lerp": lambda a, b: torch.lerp(a, b, 0.3)},
    "logaddexp": {"logaddexp": torch.logaddexp},
    "_foreach_add": {"_foreach_add": lambda a, b: torch._foreach_add([a], [b])},
    "_foreach_sub": {"_foreach_sub": lambda a, b: torch._foreach_sub([a], [b])},
    "_foreach_div": {"_foreach_div": lambda a, b: torch._foreach_div([a], [b])},
    "_foreach_pow": {"_foreach_pow": lambda a, b: torch._foreach_pow([a], [b])},
    "smooth_l1_loss": {"smooth_l1_loss": functional.smooth_l1_loss},
    "huber_loss": {"huber_loss": functional.huber_loss},
    "mse_loss": {"mse_loss": functional.mse_loss},
    "equal": {"equal": torch.equal},
}
#: Composites that meta tensors decompose otherwise than C++ does.
COMPOSITE = {"ldexp"}
#: Rows whose tensors have one type, or are refused, or whose types other tests compare with a GPU's.
ONE_TYPE = set(
    "mm bmm addmm baddbmm addbmm addmv mv dot _addmm_activation _trilinear convolution _convolution "
    "convolution_overrideable slow_conv3d_forward slow_conv_transpose2d slow_conv_transpose3d slow_conv_dilated2d "
    "slow_conv_dilated3d _slow_conv2d_forward _slow_conv2d_backward convolution_backward "
    "convolution_backward_overrideable _scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_flash_attention_for_cpu_backward _fused_adam _fused_adamw _softmax _log_softmax "
    "_softmax_backward_data _log_softmax_backward_data native_layer_norm native_layer_norm_backward _fused_rms_norm "
    "native_batch_norm native_batch_norm_backward _native_batch_norm_legit _native_batch_norm_legit_no_training "
    "_batch_norm_with_update _batch_norm_no_update batch_norm_backward nll_loss_forward nll_loss2d_forward "
    "binary_cross_entropy grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward avg_pool3d "
    "avg_pool3d_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa "
    "_upsample_bicubic2d_aa_backward multi_margin_loss multi_margin_loss_backward multilabel_margin_loss_forward "
    "multilabel_margin_loss_backward rrelu_with_noise rrelu_with_noise_backward round polygamma logit "
    "_sparse_sparse_matmul sparse_sampled_addmm _fft_r2c _fft_c2c _fft_c2r abs trace median nanmedian histc "
    "max_unpool2d max_unpool3d acos acosh asin asinh atan atanh cos cosh sin sinh tan tanh exp log sqrt rsqrt "
    "reciprocal sigmoid angle sgn sum prod logsumexp std var linalg_vector_norm sigmoid_backward tanh_backward "
    "eye flip gather scatter channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle "
    "embedding_dense_backward".split()
)


def test_every_row_of_the_table_is_tested() -> None:
    rows = {operator for operator, row in contract.read_operators().items() if "widened" in row}
    assert rows == CALLS.keys() | ONE_TYPE


def tensors(device: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Return one element and three, of every type."""
    for dtype in DTYPES:
        one = torch.tensor(2, dtype=dtype, device=device)
        yield f"{dtype}[]"[6:], one
        yield f"{dtype}[3]"[6:], one.expand(3).clone()


def pairs(device: str) -> Iterator[tuple[str, Any, Any]]:
    """Return arguments of every two types, and every type with a Python scalar."""
    for name, a in tensors(device):
        for other, b in tensors(device):
            yield f"{name}, {other}", a, b
        for scalar in SCALARS:
            yield f"{name}, {scalar}", a, scalar
            yield f"{scalar}, {name}", scalar, a


def outcome(call: Callable[[Any, Any], Any], a: Any, b: Any) -> list[Any] | None:
    """Return the results, or None where the call is refused."""
    try:
        return tree_leaves(call(a, b))
    except (RuntimeError, TypeError, NotImplementedError, ValueError, AttributeError):
        return None


@child(VIRTUAL)
@pytest.mark.parametrize("row", CALLS)
def test_promotion_as_of_meta_tensors(row: str) -> None:
    """If meta kernels and the CPU's promote differently, either result is accepted."""
    wrong, compared = [], 0
    for name, call in CALLS[row].items():
        given = zip(pairs("cuda"), pairs("meta"), pairs("cpu"), strict=True)
        for (what, *arguments), (_, *meta), (_, *cpu) in given:
            found = outcome(call, *arguments)
            references = [cpu] if row in COMPOSITE else [meta, cpu]
            known = [made for each in references if (made := outcome(call, *each)) is not None]
            if found is None or not known or not isinstance(known[0][0], torch.Tensor):
                continue
            compared += 1
            if found[0].dtype not in {made[0].dtype for made in known}:
                wrong.append(f"{name}({what}): {found[0].dtype}, not {known[0][0].dtype}")
    assert compared > 20 or row == "equal"
    assert not wrong, (len(wrong), wrong[:10])


@child(VIRTUAL)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_element_of_half_precision_beside_float32(dtype: str) -> None:
    element, vector = torch.tensor(0.1, dtype=getattr(torch, dtype)), torch.tensor([1.0, 2.0, 3.0])
    for call in (
        lambda a, b: torch.add(a, b, alpha=0.1),
        lambda a, b: torch.sub(a, b, alpha=0.1),
        lambda a, b: torch.rsub(a, b, alpha=0.1),
        lambda a, b: torch.rsub(a, b, alpha=70000),
        torch.xlogy,
    ):
        made = call(element.cuda(), vector.cuda())
        assert made.dtype is torch.float32
        torch.testing.assert_close(made.cpu(), call(element, vector))


@child(VIRTUAL)
def test_an_element_of_half_precision_is_rounded_to_its_neighbours_type() -> None:
    element = torch.tensor(0.1, dtype=torch.float16, device="cuda")
    vector = torch.tensor([1.5, 2.5], dtype=torch.bfloat16, device="cuda")
    made = torch.xlogy(element, vector)
    assert made.dtype is torch.bfloat16
    torch.testing.assert_close(made.float(), torch.xlogy(element.float(), vector.float()), rtol=1e-2, atol=0)


@child(VIRTUAL)
def test_results_go_into_outputs_of_other_types() -> None:
    half = torch.tensor(0.1, dtype=torch.float16, device="cuda")
    for out in (torch.empty((), device="cuda"), torch.empty(3, device="cuda")):
        made = torch.add(half.expand(out.shape), half, alpha=0.1, out=out)
        assert made is out
        assert out.dtype is torch.float32
        torch.testing.assert_close(out.cpu(), torch.full(out.shape, 0.11), rtol=1e-3, atol=0)
