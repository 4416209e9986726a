"""What products of matrices cost, and the operators that consist of them."""

from __future__ import annotations

import math

from .calls import Call, Shape
from .work import Product, Work, read_shape


def _product_type(call: Call, shape: Shape) -> str:
    return "tf32" if shape.type == "float" and call.is_tf32 else shape.type


def _row_length(matrix: Shape) -> int:
    """Return the elements from row to row of a matrix, or from column to column if it is transposed."""
    if not matrix.strides:
        return matrix.sizes[-1]
    return next((stride for stride in matrix.strides[-2:] if stride > 1), 1)


def products(call: Call) -> Work:
    """Return the cost of a product of matrices."""
    first = 1 if call.name in ("addmm", "baddbmm", "addmv") else 0
    a, b = read_shape(call, first), read_shape(call, first + 1)
    batch = a.sizes[0] if len(a.sizes) == 3 else 1
    if len(b.sizes) == 1:  # mv
        product = Product(a.sizes[-2], 1, a.sizes[-1], _product_type(call, a), batch)
    else:
        product = Product(a.sizes[-2], b.sizes[-1], a.sizes[-1], _product_type(call, a), batch)
    moved = a.bytes + b.bytes + batch * product.m * product.n * a.item_bytes
    # Rows that are no multiple of 16 bytes take slower kernels, rows of an odd number of elements the slowest.
    rows = (_row_length(a), _row_length(b), product.n)
    is_aligned = product.type in ("float", "double") or not any(row * a.item_bytes % 16 for row in rows)
    how = "" if is_aligned else " odd unaligned" if any(row % 2 for row in rows) else " unaligned"
    # cuBLASLt, which adds a row, has too little memory here to divide the sum among blocks.
    if product.type == "float" and call.name == "addmm" and len(read_shape(call, 0).sizes) == 1:
        how = " with bias"
    return Work(f"product{how}", moved, moved, product.flops, 1, product)


#: Where the stride and the padding are among the arguments.
_CONVOLUTION_ARGUMENTS = {"cudnn_convolution": (3, 2), "_conv_depthwise2d": (4, 5)}


#: Convolutions that are products of large matrices.
DENSE = ("wide", "first", "pointwise")


def _name_convolution(groups: int, x: Shape, weight: Shape, stride: tuple[int, ...]) -> str:
    if groups == x.sizes[1] and groups > 1:
        return "depthwise"
    if groups > 1:
        return "grouped"
    if weight.sizes[1] < 16:
        return "first"
    # Images in the usual layout are reordered, unless a pixel alone counts.
    is_pointwise = set(weight.sizes[2:]) | set(stride) == {1} and not x.is_channels_last
    return "pointwise" if is_pointwise else "wide"


def convolutions(call: Call) -> Work:
    """Return the cost of a convolution as the product that it is."""
    backward = call.name.endswith("backward")
    x, weight = read_shape(call, int(backward)), read_shape(call, 1 + backward)
    stride_at, padding_at = (4, 5) if backward else _CONVOLUTION_ARGUMENTS.get(call.name, (3, 4))
    stride, padding = call.get(stride_at, (1,)), call.get(padding_at, (0,))
    groups = max(x.sizes[1] // max(weight.sizes[1], 1), 1)
    spatial = len(x.sizes) - 2
    stride, padding = (tuple(v) * spatial if len(v) == 1 else tuple(v) for v in (stride, padding))
    if backward:
        out = read_shape(call, 0).sizes[2:]
    else:
        padded = [x.sizes[i + 2] + 2 * padding[i] - weight.sizes[i + 2] for i in range(spatial)]
        out = tuple(padded[i] // max(stride[i], 1) + 1 for i in range(spatial))
    pixels = x.sizes[0] * math.prod(out)
    name = _name_convolution(groups, x, weight, stride)
    kind = "tf32" if x.type == "float" and (call.is_tf32 or name not in DENSE) else x.type
    product = Product(pixels, weight.sizes[0] // groups, math.prod(weight.sizes[1:]), kind, groups)
    # The gradients of the input and of the weight are a product each.
    passes = sum(call.arguments[-1][:2]) if backward else 1
    written = pixels * weight.sizes[0] * x.item_bytes
    moved = passes * (x.bytes + weight.bytes + written)
    layout = "nhwc" if x.is_channels_last else "nchw"
    how = " backward" if backward else ""
    # Those of float32 without TF32 are not recorded: they are products.
    key = "product" if kind == "float" else f"convolution{how} {kind} {layout} {name}"
    return Work(key, moved, moved, product.flops * passes, 1, product)


#: Attention of 16 bits whose kernels GPUs since 8.0 share; newer ones have cuDNN's.
OLDER_KERNELS = ("flash", "efficient")


#: Rows and columns of scores that attention computes together, the width of heads whose products take as long as a
#: softmax, and how much more time a share of the scores takes than all.
_TILE, _SOFTMAX, _CAUSAL = 64, 85, 1.15


def attention(call: Call) -> Work:
    """Return the cost of attention."""
    q, k, v = (read_shape(call, i + call.name.endswith("backward")) for i in range(3))
    heads_first = not call.name.startswith("_efficient_attention")
    b = q.sizes[0]
    h, s, t = (q.sizes[1], q.sizes[2], k.sizes[2]) if heads_first else (q.sizes[2], q.sizes[1], k.sizes[1])
    e = q.sizes[3]
    causal = _is_causal(call)
    # Half of the tiles of 128 rows are skipped, except those on the diagonal.
    share = 0.5 + 0.5 / max(s / 128, 1) if causal else 1
    product = Product(s, max(round(t * share), 1), e, q.type, b * h)
    backward = call.name.endswith("backward")
    scores = b * h * -(-s // _TILE) * -(-t // _TILE) * _TILE**2 * share
    flops = 4.0 * scores * (e + _SOFTMAX) * (2.5 if backward else 1) * (_CAUSAL if causal else 1)
    moved = q.bytes * 2 + k.bytes + v.bytes
    how, kind = "backward" if backward else "forward", "f32" if q.type == "float" else "half"
    made = next((f" {each}" for each in OLDER_KERNELS if each in call.name), "") if kind == "half" else ""
    return Work(f"attention {how}{made} {kind}", moved, moved, flops, s, product)


#: Where attention's `is_causal` is among the arguments; a backward has the gradient first.
CAUSAL = {
    "_cudnn_attention_forward": 10,
    "_cudnn_attention_backward": 14,
    "_efficient_attention_forward": 9,  # of `custom_mask_type`
    "_efficient_attention_backward": 14,
    "_scaled_dot_product_cudnn_attention": 6,
    "_scaled_dot_product_cudnn_attention_backward": 14,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_efficient_attention_backward": 11,
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_flash_attention_backward": 11,
    "_flash_attention_forward": 8,
    "_flash_attention_backward": 11,
}


def _is_causal(call: Call) -> bool:
    return bool(call.get(CAUSAL[call.name], False))


#: Names and gates by cuDNN's number of the network.
_NETWORKS = (("plain", 1), ("plain", 1), ("lstm", 4), ("gru", 3))


def recurrent(call: Call) -> Work:
    """Return the cost of cuDNN's recurrent networks: a product per layer for the inputs, and one per step."""
    x = read_shape(call, 0)
    backward = call.name.endswith("backward")
    # From the mode on, the backward pass has four arguments more before its own.
    mode, hidden, _, layers, is_batch_first, *_ = call.arguments[10 if backward else 6 :]
    both_ways, lengths = call.arguments[17 if backward else 13], call.get(18 if backward else 14, ())
    if len(x.sizes) == 2:  # a packed sequence, with the sizes of its batches
        s = len(lengths) if isinstance(lengths, tuple) and lengths else 1
        b = x.sizes[0] // s
    else:
        b, s = x.sizes[:2] if is_batch_first else x.sizes[1::-1]
    steps = s * layers * (2 if both_ways is True else 1)
    name, gates = _NETWORKS[mode]
    product = Product(b, gates * hidden, x.sizes[-1] + hidden, _product_type(call, x), steps)
    chunk = max((t.bytes for t in call.tensors if len(t.sizes) == 1), default=0)
    weights = chunk or sum(t.bytes for t in call.get(1, ()) if isinstance(t, Shape))
    flops = product.flops * (2 if backward else 1)
    # Rows that are no multiple of 16 bytes have older kernels, too. Plain networks were recorded in float32 only.
    name = "unaligned" if name != "plain" and hidden * x.item_bytes % 16 else name
    key = f"{call.name} {name}" + ("" if name == "plain" else f" {product.type}")
    return Work(key, weights * s / 8, weights, flops, steps, product, kernels=steps)


#: Factorizations of a batch one after the other, unless the matrices are small.
_LOOPED, _SMALL, _LARGE = ("linalg_qr", "_linalg_eigh", "_linalg_svd"), 32, 512


def dense_linear_algebra(call: Call) -> Work:
    """Return the cost of a factorization, by its size: `count` of them follow each other."""
    shape = call.tensors[0] if call.tensors else Shape((1,), "float")
    m, n = shape.sizes[-2:] if len(shape.sizes) > 1 else (1, 1)
    batch, size = math.prod(shape.sizes[:-2]), min(m, n)
    is_looped = call.name in _LOOPED and not (size <= _SMALL and call.name != "linalg_qr")
    how = " batched" if batch > 1 and not is_looped else " large" if "eigh" in call.name and size > _LARGE else ""
    count = batch if is_looped else 1
    return Work(f"{call.name}{how}", shape.bytes, shape.bytes, count, size)
