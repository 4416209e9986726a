"""TunableOp: matrix products measured once, so that the fastest way to compute each is known.

As on CUDA builds of torch, each product has one way to be computed, ``Default``. What is tuned here is measured on the
driver's device and written to the results file; on the host every device is the same processor.
"""

import glob
import os
import re
import shutil
import time
import warnings

import torch

from torchdevice_cuda._compat import torch_release
from torchdevice_cuda.shadow.bindings import tunable as _context
from torchdevice_cuda.shadow.bindings.comm import place_of

__all__ = [
    "enable",
    "is_enabled",
    "tuning_enable",
    "tuning_is_enabled",
    "record_untuned_enable",
    "record_untuned_is_enabled",
    "set_max_tuning_duration",
    "get_max_tuning_duration",
    "set_max_tuning_iterations",
    "get_max_tuning_iterations",
    "set_filename",
    "get_filename",
    "get_results",
    "get_validators",
    "read_file",
    "tune_gemm_in_file",
    "mgpu_tune_gemm_in_file",
    "set_rotating_buffer_size",
    "get_rotating_buffer_size",
    "set_numerical_check_tolerances",
]


# ------------------------------------------------------------------------- settings
def enable(val: bool = True) -> None:
    """Switch TunableOp on or off."""
    torch._C._cuda_tunableop_enable(val)


def is_enabled() -> bool:
    """Whether TunableOp is on."""
    return torch._C._cuda_tunableop_is_enabled()


def tuning_enable(val: bool = True) -> None:
    """Let operations that have no result be tuned, or not."""
    torch._C._cuda_tunableop_tuning_enable(val)


def tuning_is_enabled() -> bool:
    """Whether operations may be tuned."""
    return torch._C._cuda_tunableop_tuning_is_enabled()


def record_untuned_enable(val: bool = True) -> None:
    """Have operations that have no result written down for :func:`tune_gemm_in_file`, or not."""
    torch._C._cuda_record_untuned_enable(val)


def record_untuned_is_enabled() -> bool:
    """Whether operations are written down."""
    return torch._C._cuda_record_untuned_is_enabled()


def set_max_tuning_duration(duration: int) -> None:
    """Measure one operation for at most so many milliseconds, though at least once."""
    torch._C._cuda_tunableop_set_max_tuning_duration(duration)


def get_max_tuning_duration() -> int:
    """Milliseconds that one operation is measured at most."""
    return torch._C._cuda_tunableop_get_max_tuning_duration()


def set_max_tuning_iterations(iterations: int) -> None:
    """Measure one operation at most so many times, though at least once."""
    torch._C._cuda_tunableop_set_max_tuning_iterations(iterations)


def get_max_tuning_iterations() -> int:
    """Times that one operation is measured at most."""
    return torch._C._cuda_tunableop_get_max_tuning_iterations()


def set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """Name the results file; with the number of the current device in it, if asked for."""
    torch._C._cuda_tunableop_set_filename(filename, insert_device_ordinal)


def get_filename() -> str:
    """The name of the results file."""
    return torch._C._cuda_tunableop_get_filename()


def get_results() -> tuple[str, str, str, float]:
    """All results: tuples of operation, parameters, solution, milliseconds."""
    return torch._C._cuda_tunableop_get_results()


def get_validators() -> tuple[str, str]:
    """What results depend on: pairs of a name and a value."""
    return torch._C._cuda_tunableop_get_validators()


def read_file(filename: str | None = None) -> bool:
    """Read results from a file, by default the results file; False where it is missing or made by another torch."""
    return torch._C._cuda_tunableop_read_file(get_filename() if filename is None else filename)


if torch_release(torch.__version__) < (2, 10):
    # Later releases write each result as it comes and have neither function.
    __all__ += ["write_file_on_exit", "write_file"]

    def write_file_on_exit(val: bool) -> None:
        """Have results written to the results file, or not; they are written as they come."""
        _context.write_results(val)

    def write_file(filename: str | None = None) -> bool:
        """Write all results to a file, by default the results file."""
        return _context.write_file(get_filename() if filename is None else filename)


def set_rotating_buffer_size(buffer_size: int) -> None:
    """Rotate through so many MB of inputs while measuring: negative for the cache's size, 0 for none."""
    return torch._C._cuda_tunableop_set_rotating_buffer_size(buffer_size)


def get_rotating_buffer_size() -> int:
    """The size of the inputs rotated through."""
    return torch._C._cuda_tunableop_get_rotating_buffer_size()


def set_numerical_check_tolerances(enable: bool, atol: float = 1e-5, rtol: float = 1e-5) -> None:
    """Have solutions checked against the default one within tolerances, or not."""
    return torch._C._cuda_tunableop_set_numerical_check_tolerances(enable, atol, rtol)


# ------------------------------------------------------------------- offline tuning
def tune_gemm_in_file(filename: str) -> None:
    """Tune every matrix product written down in a file, on the current device."""
    if not is_enabled():
        raise AssertionError("TunableOp is not enabled")
    if not tuning_is_enabled():
        raise AssertionError("Tuning is not enabled")
    device = torch.cuda.current_device()
    with open(filename) as file:
        for line in file:
            if line.startswith(_OPERATIONS):
                _process_single_offline_gemm(line, device)


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


def _check_tuning_assertions() -> None:
    """Switch TunableOp on if need be; tuning must be on and writing down off."""
    if not is_enabled():
        warnings.warn("TunableOp was disabled. Trying to enable now.", stacklevel=2)
        enable(True)
    if not is_enabled():
        raise AssertionError("is_enabled() must be True")
    if not tuning_is_enabled():
        raise AssertionError("tuning_is_enabled() must be True")
    if record_untuned_is_enabled():
        raise AssertionError("record_untuned_is_enabled() must be False")


def _gather_unique_untuned_gemm_from_files(filename_pattern: str) -> set[str]:
    """The different lines of all files of a pattern that describe a product."""
    lines = set()
    for path in glob.glob(filename_pattern):
        with open(path) as file:
            lines.update(line for line in file if line.startswith(_OPERATIONS))
    return lines


def _results_pattern() -> str:
    """A pattern for the results files of all devices, with ``?`` in the place of the device's number."""
    name = get_filename()
    if name:
        before, dot, after = name.partition(".")
        return f"{before[:-1]}?.{after}" if dot and before else ""
    name = os.getenv("PYTORCH_TUNABLEOP_FILENAME")  # torch's own variable, as the C++ side reads it
    if not name:
        return "tunableop_results?.csv"
    return name.replace("%d", "?") if "%d" in name else name.replace(".", "?.")


def _gather_tunableop_results() -> None:
    """Join the results files of all devices in one ``..._full0...``, with a copy for each further device."""
    pattern = _results_pattern()
    if "?" not in pattern:
        raise AssertionError(f"filename_pattern must contain '?', got {pattern!r}")
    files = glob.glob(pattern)
    validators: list[str] = []
    results: set[str] = set()
    for position, path in enumerate(files):
        with open(path) as file:
            for line in file:
                if not line.startswith("Validator"):
                    results.add(line)
                elif position == 0:
                    validators.append(line)
    output = pattern.replace("?", "_full0")
    with open(output, "w") as file:
        file.writelines(validators)
        file.writelines(sorted(results))
    for number in range(1, len(files)):
        shutil.copy(output, pattern.replace("?", f"_full{number}"))


# --------------------------------------------------------------------- one product
_OPERATIONS = ("Gemm", "ScaledGemm")
_DTYPES = {
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
_SIZES = ("m", "n", "k", "lda", "ldb", "ldc")


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
        where = {"dtype": dtype, "device": deviceid}
        matrix = torch.rand(stored, **where) if randn else torch.full(stored, value, **where)
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


def _product(name, sizes, device):
    """The product as a function of nothing, or ``None`` where offline tuning cannot reproduce it."""
    kind, by = name["kind"], {size: int(sizes[size]) for size in _SIZES}
    m, n, k = by["m"], by["n"], by["k"]
    # cuBLAS counts columns first: its second matrix is torch's first.
    layout = {"transB": name["layout"][0] == "T", "transA": name["layout"][1] == "T"}
    sub = any(by[leading] not in (m, n, k) for leading in ("lda", "ldb", "ldc"))
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


def _scaled_product(name, sizes, by, layout, sub, device):
    """The same for products of 8-bit floats with scales."""
    for side, wanted in (("transB", True), ("transA", False)):
        if layout[side] is not wanted:
            raise AssertionError(f"{side} must be {wanted} for ScaledGemmTunableOp, got {layout[side]}")
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


def _milliseconds(run):
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
