"""What an operator's call costs: bytes, arithmetic and the shape of its product, by the operator's family."""

from __future__ import annotations

import math
from collections.abc import Callable

from .calls import Call, Shape
from .layouts import SECTOR, is_dense, walk
from .products import CAUSAL, attention, convolutions, dense_linear_algebra, products, recurrent
from .rows import reduction, rows
from .sorts import sorts
from .spectra import transforms
from .work import Work, read_shape

# ---- element-wise --------------------------------------------------------------------------------------------------

_COMPARISONS = (
    "eq",
    "ne",
    "gt",
    "ge",
    "lt",
    "le",
    "logical_and",
    "logical_or",
    "logical_not",
    "isnan",
    "isfinite",
    "isinf",
    "bitwise_not",
)
#: Operators that do not read the tensor that they fill.
_FILLS = ("fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "arange", "linspace")


def pointwise(call: Call) -> Work:
    """Return the cost of reading every argument and writing one result of the broadcast size."""
    name = call.name
    elements = math.prod(call.broadcast)
    widest = max((t.item_bytes for t in call.tensors if t.sizes), default=4)
    if name in _FILLS:
        filled = call.tensors[-1] if call.tensors else Shape((), "float")
        return Work(_by_type(name, filled), filled.bytes, filled.bytes, filled.elements)
    written = elements * (1 if name in _COMPARISONS else widest)
    if name == "native_dropout":
        written += elements
    read = float(sum(min(t.bytes, t.elements * t.item_bytes) for t in call.tensors))
    # An in-place operator reads and writes the same memory.
    footprint = read if name.endswith("_") else read + written
    key = name
    if name in ("pow", "pow_"):
        key = "pow 2" if call.get(1) in (2, 2.0, 0.5) else "pow"
    if name in _ARITHMETIC and len(call.tensors) > 1:
        first, second = call.tensors[:2]
        if first.sizes and second.sizes:
            key = _name_pair(first, second, call.broadcast) or name
    return Work(key, read + written, footprint, elements)


_ARITHMETIC = frozenset(("add", "add_", "mul", "mul_", "sub", "sub_", "div", "div_"))


def _name_pair(first: Shape, second: Shape, sizes: tuple[int, ...]) -> str:
    """Return the name of the slower kernels for two tensors, or an empty one."""
    if second.sizes != sizes:
        return "broadcast"
    if first.sizes == sizes and walk(first, second).name != "dense":
        return "strided"
    return "of two types" if first.type != second.type else ""


def _by_type(name: str, shape: Shape) -> str:
    return name if name not in ("normal_", "uniform_") else f"{name}{shape.item_bytes}"


def _name_cast(target: Shape, source: Shape) -> str:
    if target.type == "double":
        return "copy to double"
    # Only this direction has a kernel that moves several elements at a time.
    return "copy to 16 bits" if (source.type, target.item_bytes) == ("float", 2) else "copy to another type"


def copies(call: Call) -> Work:
    """Return the cost of a copy, by the way in which it walks through memory."""
    target, source = call.tensors[:2]
    if target.is_on_host or source.is_on_host:
        memory = "pinned" if target.is_pinned or source.is_pinned else "pageable"
        how = f"{'from' if source.is_on_host else 'to'} {memory} host"
        return Work(f"copy {how}", target.bytes, target.bytes, target.elements)
    way = walk(target, source)
    key = f"copy {way.name}"
    if way.name == "dense" and target.type != source.type:
        key = _name_cast(target, source)
    footprint = target.bytes + min(way.read, source.bytes)
    return Work(key, target.bytes + way.read, footprint, way.traffic / source.item_bytes)


def lists(call: Call) -> Work:
    """Return the cost of an operator over lists: each list is read, the first is written."""
    first = call.arguments[0] if isinstance(call.arguments[0], tuple) else call.tensors
    written = float(sum(t.bytes for t in first)) if not call.name.endswith("norm") else 0.0
    in_place = call.name.endswith("_")
    if call.name.startswith("_fused"):
        # Parameters and both states are written, gradients are only read.
        written *= 3 if "adam" in call.name else 2
    footprint = call.read_bytes + (0 if in_place else written)
    return Work(call.name, call.read_bytes + written, footprint, sum(t.elements for t in first), len(first))


def packing(call: Call) -> Work:
    """Return the cost of copying tensors into one, or one into several: sharded parameters and gradients."""
    first = call.arguments[0]
    given = first if isinstance(first, tuple) else (first,)
    moved = 2.0 * sum(t.bytes for t in given)
    key = "packing" if all(is_dense(t) for t in given) else "packing strided"
    return Work(key, moved, moved, sum(t.elements for t in given))


# ---- images, rows by indices ---------------------------------------------------------------------------------------


def images(call: Call) -> Work:
    """Return the cost of an operator over images that reads its first argument and writes as much."""
    shape = read_shape(call, 0)
    written = float(shape.bytes)
    if call.name.startswith("upsample_bilinear2d"):
        # Threads divide the pixels; each handles them in every image and channel.
        sizes = call.get(2 if call.name.endswith("backward") else 1, shape.sizes)
        read = call.read_bytes
        count = math.prod(shape.sizes[:2])
        return Work(call.name, 2.0 * read, 2.0 * read, count * max(math.prod(sizes[-2:]) / 256, 1), count)
    if call.name == "upsample_nearest2d":
        written = shape.item_bytes * math.prod(shape.sizes[:2]) * math.prod(call.get(1, shape.sizes[2:]))
    elif call.name.endswith("pool2d") or call.name == "max_pool2d_with_indices":
        stride = call.get(2, ()) or call.get(1, (2, 2))
        written = shape.bytes / math.prod(stride) * (1 if call.name == "avg_pool2d" else 1 + 8 / shape.item_bytes)
    elif call.name.endswith("pool2d_backward") or call.name == "max_pool2d_with_indices_backward":
        written = float(read_shape(call, 1).bytes)
    read = call.read_bytes
    row = shape.sizes[-1] if shape.sizes else 1
    if call.name == "native_batch_norm" and not call.get(5, False):  # with running statistics: a product and a sum
        return Work("add", read + written, read + written, shape.elements)
    if "group_norm" in call.name:  # of a group of an image
        row = shape.elements // max(shape.sizes[0] * call.get(6 + 2 * call.name.endswith("backward"), 1), 1)
        return Work(call.name, read + written, read + written, shape.elements, row, is_chain=True)
    if "batch_norm" in call.name:
        is_rows = len(shape.sizes) < 3 or shape.is_channels_last
        row = shape.sizes[1] if is_rows else shape.elements // max(shape.sizes[1], 1)  # of a channel
        moved = read + written
        return Work(f"{call.name}{' rows' * is_rows}", moved, moved, shape.elements, row, is_chain=is_rows)
    return Work(call.name, read + written, read + written, max(shape.elements, written / shape.item_bytes), row)


# ---- indices -------------------------------------------------------------------------------------------------------


def gathers(call: Call) -> Work:
    """Return the cost of reading rows or elements by indices and writing as many."""
    table = read_shape(call, 0)
    index = next((t for t in call.tensors[1:] if t.type in ("long int", "int")), Shape(table.sizes[:1], "long int"))
    masks = [t for t in call.tensors[1:] if t.type == "bool"]
    if masks:  # the places of ones are found first
        count = max(t.elements for t in masks)
        return Work(f"{call.name} masked", 2.0 * table.bytes + count, table.bytes, count)
    dim = call.get(1, 0) if call.name in ("gather", "index_select") else 0
    dim %= max(len(table.sizes), 1)
    # A gather by an expanded index takes whole rows.
    is_rows = call.name != "gather" or (dim == 0 and not any(index.strides[1:]) and bool(index.strides))
    if call.name == "index_select":
        count, width = index.elements, table.elements // max(table.sizes[dim], 1)
    elif call.name == "gather":
        count, width = (index.sizes[0], math.prod(index.sizes[1:])) if is_rows else (index.elements, 1)
    else:
        indices = sum(t.type == "long int" for t in call.tensors[1:]) if call.name == "index" else 1
        count, width = index.elements, math.prod(table.sizes[max(indices, 1) :])
    if dim:
        is_rows = False
    elements = float(count * width)
    written = elements * table.item_bytes
    how = "elements" if not is_rows or width == 1 else "rows" if width * table.item_bytes % 16 == 0 else "odd rows"
    asked = written if width > 1 else count * float(SECTOR)
    footprint = min(asked, table.bytes) + written + 8 * count
    return Work(f"gather {how}", asked + written + 8 * count, footprint, elements, width if is_rows else 1)


def scatters(call: Call) -> Work:
    """Return the cost of adding rows to others by indices."""
    read = call.read_bytes
    source = max(call.tensors, key=lambda t: t.elements)
    if call.name == "embedding_dense_backward":
        written = call.get(2, 1) * source.sizes[-1] * source.item_bytes
        return Work(call.name, read + written, read + written, source.elements, call.tensors[1].elements)
    return Work(f"{call.name}{source.item_bytes}", read + source.bytes, read, source.elements)


#: Bytes that memory moves in the time of one access: what a thread costs that waits for each.
_IN_FLIGHT = 2.4e6


def losses(call: Call) -> Work:
    """Return the cost of a negative log likelihood: one element of each row; the gradient's others become zero.

    One block goes through all rows, a thread through about 16 of them, unless there are too many.
    """
    scores = call.tensors[call.name.endswith("backward")]
    rows = max(scores.elements // max(scores.sizes[-1] if scores.sizes else 1, 1), 1)
    threads = min(max(1 << max(round(math.log2(rows / 16)), 0), 32), 1024) if rows > 16 else 32
    steps = -(-rows // threads)
    moved = float(scores.bytes) if call.name.endswith("backward") else steps * _IN_FLIGHT
    return Work(call.name, moved, scores.bytes, rows, steps, blocks=1, is_chain=True)


_LISTS = ("_foreach", "_fused_adam", "_fused_sgd", "_fused_adagrad", "_amp_foreach")
Cost = Callable[[Call], Work]
_TABLE: dict[Cost, str] = {
    copies: "copy_",
    reduction: """
        sum mean max min amax amin argmax argmin any all var std norm linalg_vector_norm logsumexp prod
        nansum var_mean std_mean
    """,
    rows: """
        _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data native_layer_norm
        native_layer_norm_backward _fused_rms_norm _fused_rms_norm_backward
    """,
    images: """
        native_batch_norm native_batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward
        _native_batch_norm_legit native_group_norm native_group_norm_backward max_pool2d_with_indices
        max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d
        _adaptive_avg_pool2d_backward upsample_nearest2d upsample_bilinear2d upsample_bilinear2d_backward
    """,
    packing: """
        cat stack _chunk_cat split_with_sizes_copy split_copy unbind_copy
    """,
    gathers: """
        index index_select gather embedding
    """,
    scatters: """
        scatter_add_ scatter_add scatter scatter_ index_add_ index_add index_put_ _index_put_impl_
        embedding_dense_backward
    """,
    sorts: """
        sort topk cumsum cumprod nonzero unique argsort median kthvalue _unique2
    """,
    products: """
        mm addmm bmm baddbmm mv addmv linear
    """,
    convolutions: """
        cudnn_convolution convolution _convolution convolution_overrideable cudnn_convolution_transpose
        _conv_depthwise2d convolution_backward
    """,
    attention: " ".join(CAUSAL),
    losses: """
        nll_loss_forward nll_loss_backward
    """,
    recurrent: """
        _cudnn_rnn _cudnn_rnn_backward
    """,
    dense_linear_algebra: """
        linalg_cholesky_ex _linalg_svd _linalg_eigh linalg_qr linalg_lu_factor_ex linalg_lu_solve
        linalg_solve_triangular _linalg_solve_ex linalg_inv_ex _linalg_det
    """,
    transforms: "_fft_c2c _fft_r2c _fft_c2r",
}
_COSTS = {name: cost for cost, names in _TABLE.items() for name in names.split()}


def find_cost(call: Call) -> Work:
    """Return the cost of a call; an operator that no family names counts as element-wise."""
    if call.name.startswith(_LISTS):
        return lists(call)
    return _COSTS.get(call.name, pointwise)(call)


def name_family(name: str) -> str:
    """Return the name of an operator's family, for tables."""
    if name.startswith(_LISTS):
        return "lists"
    cost = _COSTS.get(name)
    return cost.__name__.replace("_", " ") if cost else "pointwise"
