"""Verifies the MLX table against the CPU over PyTorch's own operator samples, and prints the largest error of each.

    python tools/mlx_numerics.py [--samples 10] [--only sin,cos] [--dtypes float32,int64]

Every operator call that the samples lead to is computed a second time by MLX where the table has it: results must have
the shapes and dtypes of the CPU's and be as close to a float64 reference as the dtype allows. Operators that no sample
leads to are called with arguments of their own; all that take one array or two are called with NaN, infinities, zeros
of both signs and the ends of their dtypes' ranges as well.

The columns: calls compared, calls that MLX declined for their values, the largest error for 32-bit results and for
16-bit ones (absolute below 1, relative above), the dtypes that the operator takes through MLX, what came of it.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import sys
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torchdevice_cuda.doctor.samples import REBUILT, TOLERANCE, flat
from torchdevice_cuda.fallback import mlx_ops

#: Operators whose results are made of their dtype's limits: the CPU's own results are the reference.
OF_THEIR_DTYPE = ("nan_to_num",)


class Witness(TorchDispatchMode):
    """Has MLX compute what the CPU computes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: collections.Counter[str] = collections.Counter()
        self.declined: collections.Counter[str] = collections.Counter()
        #: by operator and bytes of a real number
        self.errors: dict[tuple[str, int], float] = collections.defaultdict(float)
        self.failures: dict[str, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().removeprefix("aten::").removesuffix(".default")
        entry = mlx_ops.TABLE.get(name)
        if entry is None or not mlx_ops.fits(entry, args, kwargs):
            return func(*args, **kwargs)
        expected = func(*args, **kwargs)
        try:
            got = mlx_ops.run(entry, *args, **kwargs)
            self.calls[name] += 1
            exact = expected if name in OF_THEIR_DTYPE else reference(func, args, kwargs)
            self._compare(name, args, expected, got, exact)
        except mlx_ops.UnfitError:
            self.declined[name] += 1
        except Exception as error:
            shapes = [(list(v.shape), v.dtype) if isinstance(v, torch.Tensor) else v for v in args]
            self.failures.setdefault(name, f"{type(error).__name__}: {error}"[:300] + f" for {shapes} {kwargs}"[:200])
        return expected

    def _compare(self, name: str, args: tuple, expected: Any, got: Any, exact: Any) -> None:
        for one, other in zip(flat(expected), flat(got), strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype), f"{other.shape} {other.dtype}: not {one.dtype}"
        if name in REBUILT:
            rebuild = REBUILT[name]
            expected, got, exact = rebuild(args, expected), rebuild(args, got), rebuild(widened(args), exact)
        for one, other, real in zip(flat(expected), flat(got), flat(exact), strict=True):
            if not (one.is_floating_point() or one.is_complex()):
                assert torch.equal(one, other), "other values"
                continue
            tolerance = TOLERANCE[one.dtype]
            # Where the two differ the reference may side with MLX: torch's remainder overflows earlier, for one.
            right = torch.where(torch.isclose(other, real.to(one.dtype), tolerance, tolerance), other, one)
            torch.testing.assert_close(other, right, rtol=tolerance, atol=tolerance, equal_nan=True)
            finite = real.isfinite() & other.isfinite()
            if bool(finite.any()):
                distance = (other.to(real.dtype)[finite] - real[finite]).abs() / real[finite].abs().clamp_min(1)
                place = (name, one.real.element_size())
                self.errors[place] = max(self.errors[place], float(distance.max()))


def widened(value: Any) -> Any:
    """Arguments in float64."""
    if isinstance(value, torch.Tensor):
        return (
            value.to({torch.complex64: torch.complex128}.get(value.dtype, torch.float64))
            if (value.is_floating_point() or value.is_complex())
            else value
        )
    if isinstance(value, (list, tuple)):
        return type(value)(widened(item) for item in value)
    return value


def reference(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    return func(*widened(args), **{key: widened(value) for key, value in kwargs.items()})


#: Arguments for operators that no sample, or hardly one, leads to.
DIRECT = {
    "_adaptive_avg_pool3d": lambda: (torch.rand(2, 3, 4, 6, 8), [2, 3, 2]),
    "channel_shuffle": lambda: (torch.rand(2, 6, 5), 3),
    "_linalg_eigvals": lambda: (torch.tensor([[2.0, 1.0], [0.0, 3.0]]),),
    "all.dim": lambda: (torch.tensor([[True, False], [True, True]]), 1),
    "clamp_max": lambda: (torch.tensor([-1.0, 2.0]), 0.5),
    "_conj_physical": lambda: (torch.tensor([1 + 2j]),),
    "count_nonzero.dim_IntList": lambda: (torch.tensor([[1, 0], [2, 3]]), [1]),
    "gt.Scalar": lambda: (torch.tensor([1.0, 3.0]), 2.0),
    "pow.Scalar": lambda: (2.0, torch.tensor([1.0, 3.0])),
    "remainder.Scalar": lambda: (torch.tensor([-1.0, 3.5]), 2.0),
    "searchsorted.Tensor": lambda: (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 2.5])),
}


def extremes(dtype: torch.dtype) -> torch.Tensor:
    """Values that implementations disagree about."""
    if dtype is torch.bool:
        return torch.tensor([True, False])
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        return torch.tensor([limits.min, limits.max, 0, 1, 2, 100, limits.max - 1], dtype=dtype)
    tiny, most = torch.finfo(dtype).tiny, torch.finfo(dtype).max
    nan, inf = float("nan"), float("inf")
    values = [nan, inf, -inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 1, -1, 2, -2, 20, -20, 88, -88, tiny, most, -most]
    return torch.tensor(values, dtype=dtype)


def overload(name: str) -> Any:
    base, _, which = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), which or "default")


def call(op: Any, witness: Witness, *args: Any) -> None:
    """Have an operator called, unless it is not one for these arguments."""
    try:
        with witness:
            op(*args)
    except (RuntimeError, TypeError, IndexError):
        return


def over_samples(witness: Witness, only: set[str] | None, dtypes: list[str], count: int) -> None:
    """Measure the operators in torch's own operator samples."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op, name in itertools.product(op_db, dtypes):
        dtype = getattr(torch, name)
        if (only and op.name not in only) or dtype not in op.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        try:
            samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), count))
        except Exception as error:
            print(f"{op.name}: no samples: {error}", file=sys.stderr)
            continue
        for sample in samples:
            try:
                with witness:
                    op(sample.input, *sample.args, **sample.kwargs)
            except Exception:  # the sample is not one for the CPU in this dtype
                continue


def over_extremes(witness: Witness) -> None:
    """Every operator that takes one array or two, with the values that implementations disagree about."""
    for name, entry in mlx_ops.TABLE.items():
        for dtype in sorted(entry.dtypes, key=str):
            if dtype.is_complex:
                continue
            values = extremes(dtype)
            one, other = (part.reshape(-1) for part in torch.meshgrid(values, values, indexing="ij"))
            call(overload(name), witness, values.clone())
            call(overload(name), witness, one.clone(), other.clone())


def brief(dtypes: frozenset[torch.dtype]) -> str:
    return ",".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--only", default="", help="names of op_db entries, comma-separated; nothing else is called")
    parser.add_argument("--dtypes", default="float32,float16,bfloat16,int64,uint8,bool,complex64")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    only = set(options.only.split(",")) if options.only else None
    witness = Witness()
    over_samples(witness, only, options.dtypes.split(","), options.samples)
    if only is None:
        over_extremes(witness)
        for name, make in DIRECT.items():
            call(overload(name), witness, *make())
    rows = sorted(mlx_ops.TABLE)
    for name in rows:
        state = witness.failures.get(name) or ("ok" if witness.calls[name] else "NOT SEEN")
        errors = (
            f"{witness.errors[name, size]:8.1e}" if (name, size) in witness.errors else "       -" for size in (4, 2)
        )
        print(
            f"{name:28} {witness.calls[name]:6} {witness.declined[name]:5} {' '.join(errors)} "
            f"{brief(mlx_ops.TABLE[name].dtypes)} {state}"
        )
    good = [name for name in rows if witness.calls[name] and name not in witness.failures]
    print(f"{len(good)} of {len(rows)} operators verified")
    return int(len(good) < len(rows))


if __name__ == "__main__":
    sys.exit(main())
