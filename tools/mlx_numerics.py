"""Verifies the MLX table against the CPU over PyTorch's own operator samples, and prints the largest error of each.

    python tools/mlx_numerics.py [--samples 10] [--only sin,cos] [--dtypes float32,int64]

Every operator call that the samples lead to is computed a second time by MLX where the table has it: results must have
the shapes and dtypes of the CPU's and be as close to a float64 reference as float32 allows.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import sys
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torchdevice_cuda.fallback import mlx_ops

# Operators whose results are unique only up to signs or order: what they are made for is compared instead.
REBUILT = {
    "_linalg_eigh": lambda args, out: out[1] @ torch.diag_embed(out[0]) @ out[1].mH if out[1].numel() else out[0],
    "_linalg_svd": lambda args, out: out[0] @ torch.diag_embed(out[1]).to(out[0].dtype) @ out[2],
    "linalg_qr": lambda args, out: out[0] @ out[1],
    "linalg_eig": lambda args, out: args[0].to(out[1].dtype) @ out[1] - out[1] @ torch.diag_embed(out[0]),
    "_linalg_eigvals": lambda args, out: out.sum(-1),
    "sort": lambda args, out: out[0],
    "topk": lambda args, out: out[0],
    "kthvalue": lambda args, out: out[0],
}
TOLERANCE = {torch.float32: 2e-4, torch.complex64: 2e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}


class Witness(TorchDispatchMode):
    """Has MLX compute what the CPU computes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: collections.Counter[str] = collections.Counter()
        self.dtypes: dict[str, set[str]] = collections.defaultdict(set)
        self.errors: dict[str, float] = collections.defaultdict(float)
        self.failures: dict[str, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().removeprefix("aten::").removesuffix(".default")
        entry = mlx_ops.TABLE.get(name)
        if entry is None or not mlx_ops.fits(entry, args, kwargs):
            return func(*args, **kwargs)
        expected = func(*args, **kwargs)
        self.calls[name] += 1
        try:
            self._compare(name, args, expected, mlx_ops.run(entry, *args, **kwargs), reference(func, args, kwargs))
        except Exception as error:
            shapes = [(list(v.shape), v.dtype) if isinstance(v, torch.Tensor) else v for v in args]
            self.failures.setdefault(name, f"{type(error).__name__}: {error}"[:300] + f" for {shapes} {kwargs}"[:200])
        return expected

    def _compare(self, name: str, args: tuple, expected: Any, got: Any, exact: Any) -> None:
        for one, other in zip(flat(expected), flat(got), strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype), f"{other.shape} {other.dtype}: not {one.dtype}"
            self.dtypes[name].add(str(one.dtype).removeprefix("torch."))
        if name in REBUILT:
            rebuild = REBUILT[name]
            expected, got, exact = rebuild(args, expected), rebuild(args, got), rebuild(widened(args), exact)
        for one, other, real in zip(flat(expected), flat(got), flat(exact), strict=True):
            if not (one.is_floating_point() or one.is_complex()):
                assert torch.equal(one, other), "other values"
                continue
            tolerance = TOLERANCE[one.dtype]
            torch.testing.assert_close(other, one, rtol=tolerance, atol=tolerance, equal_nan=True)
            finite = real.isfinite() & other.isfinite()
            if bool(finite.any()):
                distance = (other.to(real.dtype)[finite] - real[finite]).abs() / real[finite].abs().clamp_min(1)
                self.errors[name] = max(self.errors[name], float(distance.max()))


def flat(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [item for part in value for item in flat(part)]


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--only", default="", help="names of op_db entries, comma-separated")
    parser.add_argument("--dtypes", default="float32,float16,bfloat16,int64,uint8,bool,complex64")
    parser.add_argument("--json", default="", help="write the figures here too")
    options = parser.parse_args()
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    only = set(options.only.split(",")) if options.only else None
    witness = Witness()
    for op, name in itertools.product(op_db, options.dtypes.split(",")):
        dtype = getattr(torch, name)
        if (only and op.name not in only) or dtype not in op.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        try:
            samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), options.samples))
        except Exception as error:
            print(f"{op.name}: no samples: {error}", file=sys.stderr)
            continue
        for sample in samples:
            try:
                with witness:
                    op(sample.input, *sample.args, **sample.kwargs)
            except Exception:  # the sample is not one for the CPU in this dtype
                continue
    rows = sorted(mlx_ops.TABLE)
    for name in rows:
        state = witness.failures.get(name) or ("ok" if witness.calls[name] else "NOT SEEN")
        dtypes = ",".join(sorted(witness.dtypes[name]))
        print(f"{name:32} {witness.calls[name]:6} {witness.errors[name]:9.2e} {dtypes:40} {state}")
    good = [name for name in rows if witness.calls[name] and name not in witness.failures]
    print(f"{len(good)} of {len(rows)} operators verified")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({name: [witness.calls[name], witness.errors[name]] for name in good}, file, indent=1)
    return int(len(good) < len(rows))


if __name__ == "__main__":
    sys.exit(main())
