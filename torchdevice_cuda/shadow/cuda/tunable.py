"""TunableOp: matrix products measured once, so that the fastest way to compute each is known.

As on CUDA builds of torch, each product has one way to be computed, ``Default``. What is tuned here is measured on the
driver's device and written to the results file; on the host every device is the same processor. CUDA measures inside
the products, which the host does not: so tuning is ours, and all else is stock's.
"""

import re
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

import torch

from torchdevice_cuda.shadow import stock
from torchdevice_cuda.shadow.bindings import tunable as _context
from torchdevice_cuda.shadow.bindings.comm import place_of

stock.execute(globals())

if TYPE_CHECKING:
    from torch.cuda.tunable import (
        _check_tuning_assertions,
        _gather_tunableop_results,
        _gather_unique_untuned_gemm_from_files,
        get_max_tuning_duration,
        get_max_tuning_iterations,
    )


def mgpu_tune_gemm_in_file(filename_pattern: str, num_gpus: int) -> None:
    """Tune the products of several files on several devices in turn, and gather the results in one file.

    CUDA gives each device a process. The devices here are one processor, on which processes would only disturb each
    other's measurements: the products are tuned one after the other.
    """
    lines = _gather_unique_untuned_gemm_from_files(filename_pattern)
    count = torch.cuda.device_count()
    if not 1 <= num_gpus <= count:
        raise AssertionError(f"num_gpus must be between 1 and {count}, got {num_gpus}")
    _check_tuning_assertions()
    for position, line in enumerate(sorted(lines)):
        device = position % num_gpus
        with torch.cuda.device(device):
            _process_single_offline_gemm(line, device)
    torch.cuda.synchronize()
    _gather_tunableop_results()


_DTYPES = {
    "Float": torch.float32,
    "float": torch.float32,
    "tf32": torch.float32,  # a way in which tensor cores compute; the host has only the one
    "double": torch.float64,
    "BFloat16": torch.bfloat16,
    "Half": torch.half,
    "c10::complex<double>": torch.complex128,
    "c10::complex<float>": torch.complex64,
    "Float8_e4m3fn": torch.float8_e4m3fn,
    "Float8_e5m2": torch.float8_e5m2,
    "Float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "Float8_e5m2fnuz": torch.float8_e5m2fnuz,
}


# GemmTunableOp_float_NT; ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_BFloat16_TN
_DTYPE = r"(?:Float8_\w+?|[^_,]+)"


_NAME = re.compile(
    rf"(?P<kind>\w+?TunableOp)_(?P<a>{_DTYPE})(?:_(?P<b>{_DTYPE})_(?P<c>{_DTYPE}))?_(?P<layout>[NT]{{2}})"
)


# nt_25088_4096_64_ld_25088_4096_64, with _B_batch before _ld for batches and _rw_1_bias_None after it for scaled ones
_PARAMETERS = re.compile(
    r"[nt]{2}_(?P<n>\d+)_(?P<m>\d+)_(?P<k>\d+)(?:_B_(?P<batch>\d+))?_ld_(?P<ldb>\d+)_(?P<lda>\d+)_(?P<ldc>\d+)"
    r"(?:_rw_(?P<rowwise>[01])_bias_(?P<bias>\w+))?.*"
)


def _create_matrices(
    m: int,
    n: int,
    k: int,
    lda: int,
    ldb: int,
    ldc: int,
    transA: bool,
    transB: bool,
    dtypeA: torch.dtype,
    deviceid: str,
    dtypeB: torch.dtype | None = None,
    randn: bool = True,
    subMatrix: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Factors of shapes ``(m, k)`` and ``(k, n)``, laid out as the product's parameters say."""
    made = []
    # 8-bit floats have no random numbers: they are filled with values that they hold exactly.
    for value, dtype, rows, columns, leading, transposed in (
        (0.25, dtypeA, m, k, lda, transA),
        (0.75, dtypeA if dtypeB is None else dtypeB, k, n, ldb, transB),
    ):
        shape = (columns, rows) if transposed else (rows, columns)
        stored = (max(ldc, k), leading) if subMatrix else shape
        if randn:
            matrix = torch.rand(stored, dtype=dtype, device=deviceid)
        else:
            matrix = torch.full(stored, value, dtype=dtype, device=deviceid)
        matrix = matrix[: shape[0], : shape[1]]
        made.append(matrix.t() if transposed else matrix)
    return made[0], made[1]


def _create_batch_matrices(
    m: int,
    n: int,
    k: int,
    b: int,
    lda: int,
    ldb: int,
    ldc: int,
    transA: bool,
    transB: bool,
    dtype: torch.dtype,
    deviceid: str,
    subMatrix: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for a batch of ``b`` products."""
    made = []
    for rows, columns, leading, transposed in ((m, k, lda, transA), (k, n, ldb, transB)):
        shape = (columns, rows) if transposed else (rows, columns)
        stored = (max(ldc, k), leading) if subMatrix else shape
        matrix = torch.rand(b, *stored, dtype=dtype, device=deviceid)[:, : shape[0], : shape[1]]
        made.append(matrix.transpose(1, 2) if transposed else matrix)
    return made[0], made[1]


def _dtype(name: str) -> torch.dtype:
    if name not in _DTYPES:
        raise TypeError(f"dtype must be a torch.dtype, but got {name}")
    return _DTYPES[name]


def _process_single_offline_gemm(untuned_gemm_line: str, gpu_id: int) -> None:
    """Tune the product that a line describes: run it on a device and note its time."""
    operation, _, parameters = untuned_gemm_line.strip().partition(",")
    parameters = parameters.partition(",")[0]
    name, sizes = _NAME.fullmatch(operation), _PARAMETERS.fullmatch(parameters)
    if name is None or sizes is None:
        warnings.warn(f"error: unknown op {untuned_gemm_line.strip()}", stacklevel=2)
        return
    if _context.is_tuned(operation, parameters):
        return
    run = _product(name, sizes, str(place_of(gpu_id)))
    if run is None:
        warnings.warn(
            "Offline tuning is not supported for this GEMM. Use online tuning instead. "
            f"Skipped tuning for: {parameters}",
            stacklevel=2,
        )
        return
    _context.add_result(operation, parameters, _milliseconds(run))


class _Sizes(TypedDict):
    """The sizes of a product, and the lengths of its matrices' lines in memory."""

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int


class _Layout(TypedDict):
    """Which matrix lies transposed."""

    transA: bool
    transB: bool


def _product(name: re.Match[str], sizes: re.Match[str], device: str) -> Callable[[], torch.Tensor] | None:
    """The product as a function of nothing, or ``None`` where offline tuning cannot reproduce it."""
    kind, by = name["kind"], _sizes(sizes)
    m, n, k = by["m"], by["n"], by["k"]
    # cuBLAS counts columns first: its second matrix is torch's first.
    layout: _Layout = {"transB": name["layout"][0] == "T", "transA": name["layout"][1] == "T"}
    sub = any(leading not in (m, n, k) for leading in (by["lda"], by["ldb"], by["ldc"]))
    vector = 1 in (m, n, k)
    dtype = _dtype(name["a"])
    if kind == "GemmTunableOp":
        plain = not (layout["transA"] or layout["transB"])
        if vector and not plain and not (layout["transA"] and n == 1):
            return None
        a, b = _create_matrices(**by, **layout, dtypeA=dtype, deviceid=device, subMatrix=sub)
        return lambda: torch.mm(a, b)
    if kind == "GemmStridedBatchedTunableOp":
        if vector:
            return None
        batch = int(sizes["batch"] or 1)
        a, b = _create_batch_matrices(**by, b=batch, **layout, dtype=dtype, deviceid=device, subMatrix=sub)
        return lambda: torch.bmm(a, b)
    if kind == "GemmAndBiasTunableOp":
        if layout["transA"] == layout["transB"]:
            raise AssertionError(
                "transA and transB must differ for GemmAndBiasTunableOp, got "
                f"transA={layout['transA']}, transB={layout['transB']}"
            )
        bias = torch.rand(n, dtype=dtype, device=device)
        x, weight = _create_matrices(**by, **layout, dtypeA=dtype, deviceid=device, subMatrix=sub)
        return lambda: torch.nn.functional.linear(x, weight.t(), bias)
    if kind == "ScaledGemmTunableOp":
        return _scaled_product(name, sizes, by, layout, sub, device)
    return None


def _sizes(match: re.Match[str]) -> _Sizes:
    """What a product's parameters say of its sizes."""
    m, n, k, lda, ldb, ldc = map(int, match.group("m", "n", "k", "lda", "ldb", "ldc"))
    return {"m": m, "n": n, "k": k, "lda": lda, "ldb": ldb, "ldc": ldc}


def _scaled_product(
    name: re.Match[str], sizes: re.Match[str], by: _Sizes, layout: _Layout, sub: bool, device: str
) -> Callable[[], torch.Tensor]:
    """The same for products of 8-bit floats with scales."""
    for side, is_transposed, wanted in (("transB", layout["transB"], True), ("transA", layout["transA"], False)):
        if is_transposed is not wanted:
            raise AssertionError(f"{side} must be {wanted} for ScaledGemmTunableOp, got {is_transposed}")
    a, b = _create_matrices(
        **by,
        **layout,
        dtypeA=_dtype(name["a"]),
        deviceid=device,
        dtypeB=_dtype(name["b"]),
        randn=False,
        subMatrix=sub,
    )
    if sizes["rowwise"] == "1":
        scales = torch.ones((by["m"], 1), device=device), torch.ones((1, by["n"]), device=device)
    else:
        scales = torch.tensor(0.8, device=device), torch.tensor(0.9, device=device)
    bias = None
    if sizes["bias"] not in (None, "None"):
        bias = torch.full((by["n"],), 0.10, dtype=_dtype(sizes["bias"]), device=device)
    out_dtype = _dtype(name["c"])
    return lambda: torch._scaled_mm(a, b, scale_a=scales[0], scale_b=scales[1], out_dtype=out_dtype, bias=bias)


def _milliseconds(run: Callable[[], torch.Tensor]) -> float:
    """The mean time of a call, after one that warms up, within the limits of duration and iterations."""
    run()
    most = max(1, get_max_tuning_iterations())
    end = time.perf_counter() + get_max_tuning_duration() / 1000
    begin, count = time.perf_counter(), 0
    while count < most and (count == 0 or time.perf_counter() < end):
        run()
        count += 1
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count * 1000
