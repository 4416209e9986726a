"""The parts of the native device: each folder of ``csrc`` is one part and one library.

Most programs need only the core. Any other part is loaded, and compiled if needed, when the program first calls one of
its operators or functions. Files whose names begin with ``cuda_`` or ``mps_`` are only for that kind of device.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from . import op_table
from .toolchain import SOURCES

#: Not a device, but a library of a few functions, which does not need torch.
CALLS = "calls"
CORE = "core"
_KINDS = ("cuda", "mps")


class Unit(NamedTuple):
    """Folders that are compiled as one file, the optimization level and other compiler flags."""

    level: str
    folders: tuple[str, ...]
    flags: tuple[str, ...] = ()
    #: Compile time in seconds on one core of 2.5 GHz.
    seconds: float = 20.0


class Part(NamedTuple):
    """The units of a part, its purpose, and the operators and functions that load it."""

    units: Mapping[str, Unit]
    purpose: str
    #: operators by the dispatch key of their kernels; aten operators without "aten::"
    operators: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    functions: tuple[str, ...] = ()


# Loops over random numbers are vectorized: nothing reads errno or traps, and the numbers do not depend on whether the
# processor has fused multiply-add instructions.
_LOOPS = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")
_CORE = {
    # PyTorch's headers take longer to compile than these files, so few units include them.
    "kernels": Unit("-O1", ("core/kernels",), seconds=28),
    "bindings": Unit("-O1", ("core/bindings", "rescue"), seconds=26),
    "operators": Unit("-O2", ("core/operators",), seconds=20),
    "runtime": Unit("-O2", ("core/runtime",), seconds=20),
    "op_table": Unit("-O1", (op_table.TEMPLATE,), seconds=1),
}
_CUDA_LOOPS = {
    "random": Unit("-O3", ("core/random",), _LOOPS, seconds=12),
    "sums": Unit("-O3", ("core/sums",), _LOOPS, seconds=4),
}


def _single(name: str, seconds: float, level: str = "-O1") -> dict[str, Unit]:
    return {name: Unit(level, (name,), seconds=seconds)}


_FUSED = (
    *(
        f"_scaled_dot_product_{kernel}_attention{direction}"
        for kernel in ("efficient", "flash", "cudnn")
        for direction in ("", "_backward")
    ),
    *(f"_{kernel}_attention_{direction}" for kernel in ("efficient", "flash") for direction in ("forward", "backward")),
)
_NETWORKS = tuple(f"{name}.{form}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data"))
_PRODUCTS = tuple(f"{name}.dtype{out}" for name in ("mm", "bmm", "addmm", "baddbmm") for out in ("", "_out"))

_PARTS: dict[str, dict[str, Part]] = {
    "cuda": {
        CORE: Part({**_CORE, **_CUDA_LOOPS}, "factories, arithmetic, autograd, random numbers, sums, memory"),
        "attention": Part(
            _single("attention", 22),
            "fused attention: CUDA's choice of kernels, the CPU kernel that computes them, dropout",
            {
                "CUDA": ("_fused_sdp_choice", *_FUSED),
                "CPU": _FUSED,
            },
            ("takes_attention",),
        ),
        "recurrent": Part(
            _single("recurrent", 14),
            "fused cells; LSTM as cuDNN's operator, or step by step with dropout or projections; flat weights",
            {
                "CUDA": (
                    *_NETWORKS,
                    "_cudnn_rnn",
                    "_cudnn_rnn_backward",
                    "_cudnn_rnn_flatten_weight",
                    "_thnn_fused_lstm_cell",
                    "_thnn_fused_lstm_cell_backward_impl",
                    "_thnn_fused_gru_cell",
                    "_thnn_fused_gru_cell_backward",
                ),
                "AutogradCUDA": _NETWORKS,
            },
        ),
        "quantized": Part(
            _single("quantized", 13),
            "quantization as CUDA rounds; cuDNN's sums, products, convolutions and pooling of signed bytes",
            {
                "CUDA": (
                    "quantize_per_tensor",
                    "quantize_per_tensor.tensor_qparams",
                    "quantize_per_tensor_dynamic",
                    "quantize_per_channel",
                ),
                "QuantizedCUDA": (
                    "dequantize.self",
                    "quantized_max_pool2d",
                    "gelu",
                    "_adaptive_avg_pool2d",
                    "empty_like",
                    "empty_quantized",
                    "quantized::add",
                    "quantized::add_relu",
                    "quantized::linear_prepack",
                    "quantized::linear",
                    "quantized::linear_relu",
                    "quantized::conv1d_prepack",
                    "quantized::conv2d_prepack",
                    "quantized::conv1d",
                    "quantized::conv1d_relu",
                    "quantized::conv2d.new",
                    "quantized::conv2d_relu.new",
                    "quantized::max_pool2d",
                ),
            },
        ),
        "sparse": Part(
            _single("sparse", 13),
            "sums and products of sparse tensors, which CUDA does not coalesce; arithmetic of nested tensors",
            {
                "CUDA": ("sspaddmm.out",),
                "SparseCUDA": (
                    "sspaddmm.out",
                    "mm",
                    "addmm",
                    "mul.Tensor",
                    "add.Tensor",
                    "add_.Tensor",
                    "add.out",
                    "sub.Tensor",
                    "sub_.Tensor",
                    "sub.out",
                ),
                "NestedTensorCUDA": (
                    "_nested_tensor_size",
                    "_nested_tensor_strides",
                    "_nested_tensor_storage_offsets",
                    "add.Tensor",
                    "sub.Tensor",
                    "mul.Tensor",
                    "div.Tensor",
                ),
            },
        ),
        "composites": Part(
            _single("composites", 26),
            "rarely called operators: linear algebra, embedding_bag, sort and topk with CUDA's ties, rejections",
            {
                "CUDA": (
                    "_embedding_bag",
                    "_embedding_bag_forward_only",
                    "linalg_eig",
                    "linalg_eigvals.out",
                    "_linalg_eigvals",
                    "cholesky_inverse",
                    "cholesky_inverse.out",
                    "_linalg_svd",
                    "_linalg_svd.U",
                    "linalg_lu",
                    "linalg_lu.out",
                    "linalg_lu_factor_ex",
                    "linalg_lu_factor_ex.out",
                    "linalg_lstsq",
                    "linalg_lstsq.out",
                    "_int_mm",
                    "_int_mm.out",
                    "_foreach_mm",
                    *_PRODUCTS,
                    "_convert_weight_to_int4pack",
                    "_weight_int4pack_mm",
                    "_scaled_mm",
                    "_scaled_mm.out",
                    "_scaled_mm_v2",
                    "_scaled_mm_v2.out",
                    "poisson",
                    "_standard_gamma",
                    "_sample_dirichlet",
                    "binomial",
                    "rrelu_with_noise",
                    "rrelu_with_noise_",
                    "rrelu_with_noise.out",
                    "kthvalue",
                    "kthvalue.values",
                    "mode",
                    "mode.values",
                    "topk",
                    "topk.values",
                    "sort.stable",
                    "sort.values_stable",
                    "sort",
                    "sort.values",
                    "argsort.stable",
                ),
            },
        ),
        "scans": Part(
            {"scans": Unit("-O3", ("scans",), _LOOPS, seconds=12)},
            "cumsum, cumprod and logcumsumexp in the order of CUDA's kernels",
            {
                "CUDA": tuple(name + form for name in ("cumsum", "cumprod") for form in ("", "_", ".out"))
                + ("_logcumsumexp", "_logcumsumexp.out")
            },
        ),
        "reductions": Part(
            {"reductions": Unit("-O3", ("reductions",), _LOOPS, seconds=14)},
            "products and variances in the order of CUDA's kernel",
            {
                "CUDA": ("prod", "prod.dim_int")
                + tuple(f"{name}.correction" for name in ("var", "std", "var_mean", "std_mean"))
            },
        ),
        "graphs": Part(
            {"graphs": Unit("-O1", ("graphs", "nodes"), seconds=20)},
            "CUDA graphs: capture and replay of calls",
            functions=(
                "Graph",
                "PoolCheckpoint",
                "checkpoint_pool",
                "restore_pool",
                "owns_device_memory",
                "free_under",
                "forbid_storage",
                "allow_storage",
                "forbid_tensor",
                "begin_foreign_call",
                "end_foreign_call",
            ),
        ),
        "races": Part(
            _single("races", 20, "-O2"),
            "the detector of races between streams, the host and freed memory",
            functions=("check_streams", "forget_races"),
        ),
        "deferral": Part(
            {"deferral": Unit("-O1", ("deferral", "nodes", "inference"), seconds=25)},
            "work that runs when something waits for it, in an order chosen by a seed",
            functions=("start_deferral", "stop_deferral", "read_deferral_counts"),
        ),
        "initcheck": Part(
            _single("initcheck", 9), "new memory that shows that nothing has written it", functions=("fill_new_memory",)
        ),
        "profiling": Part(
            _single("profiling", 14), "device events for PyTorch's profilers", functions=("describe_devices",)
        ),
        "clock": Part(
            _single("clock", 16),
            "the clock of a GPU: predicted times",
            functions=(
                *("start_clock", "stop_clock", "read_clock_counts", "add_work", "predict_kernel"),
                *("set_workspaces", "count_workspaces", "clear_workspaces"),
            ),
        ),
        "rehearsal": Part(
            {"rehearsal": Unit("-O1", ("rehearsal", "inference"), seconds=22)},
            "calls of operators without computing large tensors",
            functions=("start_rehearsal", "stop_rehearsal", "is_large", "is_uncomputed", "set_computed"),
        ),
        "counting": Part(
            _single("counting", 17),
            "counters of a report, by line of the program",
            functions=("find_lines", "start_counting", "stop_counting", "is_counted", "read_counts"),
        ),
        "distributed": Part(
            _single("distributed", 30),
            "work of process groups, all_reduce, collective fingerprints, RPC, the timer of DistributedDataParallel",
            functions=(
                "watch_group",
                "forget_group",
                "carried_work",
                "count_pending_collectives",
                "use_quick_allreduce",
                "time_collectives",
                "count_coalescing",
                "alias_tensors",
                "borrow_tensors",
                "is_observed",
                "observe_collective",
                "may_run_later",
                "defer_collective",
                "send_tensors",
            ),
        ),
    },
    "mps": {CORE: Part(_CORE, "the emulated Apple GPU")},
    CALLS: {CORE: Part({CALLS: Unit("-O2", ("calls", "rescue"), seconds=5)}, "rescue alone, for a real Apple GPU")},
}


def parts_of(kind: str) -> Mapping[str, Part]:
    """Return the parts of a device of this kind, the core first."""
    return _PARTS[kind]


def list_sources(kind: str, unit: Unit) -> list[str]:
    """List the files of a unit, by their paths in ``csrc``."""
    foreign = tuple(f"{other}_" for other in _KINDS if other != kind)
    found: list[str] = []
    for folder in unit.folders:
        paths = sorted((SOURCES / folder).glob("*.cpp")) if (SOURCES / folder).is_dir() else [SOURCES / folder]
        found += [path.relative_to(SOURCES).as_posix() for path in paths if not path.name.startswith(foreign)]
    return found


def list_deferred(kind: str) -> list[tuple[str, str, str]]:
    """List the operators of all parts but the core: the part, the dispatch key and the full name of each."""
    return [
        (part, key, name if "::" in name else f"aten::{name}")
        for part, made in _PARTS[kind].items()
        for key, names in made.operators.items()
        for name in names
    ]


def find_part(kind: str, function: str) -> str | None:
    """Find the part that has a function."""
    return next((part for part, made in _PARTS[kind].items() if function in made.functions), None)


def name_library(kind: str, part: str) -> str:
    """Return the name of a part's Python module."""
    return f"_hostdevice_{kind}" if part == CORE else f"_hostdevice_{kind}_{part}"
