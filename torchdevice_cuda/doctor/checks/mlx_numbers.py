"""Compare MLX's results with the CPU's: every operator of the table that has sample arguments."""

from __future__ import annotations

import functools

import torch

from ...fallback import mlx_ops
from ...fallback.mlx_arrays import mlx
from ...fallback.operators import overload
from ..asking import Finding, NotHereError, Wrong, add, expect, main
from ..samples import REBUILT, TOLERANCE, arguments, flat

_ELEMENTS = 1 << 10


def _works() -> Finding:
    found = mlx()
    expect(found is not None, "mlx is installed and cannot be imported")
    if found is None:
        return None
    return f"mlx {found.__version__} on {found.default_device()}"


def _as_on_the_cpu(name: str) -> Finding:
    made = arguments(name, _ELEMENTS)
    if made is None:
        raise NotHereError("nobody has thought of arguments")
    known, found = overload(name)(*made), mlx_ops.run(mlx_ops.TABLE[name], *made)
    for one, other in zip(flat(known), flat(found), strict=True):
        same = (one.shape, one.dtype) == (other.shape, other.dtype)
        expect(same, f"{other.dtype} {tuple(other.shape)}, not {one.dtype} {tuple(one.shape)}")
    rebuild = REBUILT.get(name)
    if rebuild is not None:
        known, found = rebuild(made, known), rebuild(made, found)
    apart = 0.0
    for one, other in zip(flat(known), flat(found), strict=True):
        if not (one.is_floating_point() or one.is_complex()):
            expect(torch.equal(one, other), "other values")
            continue
        distance = (one - other).abs() / one.abs().clamp_min(1)
        apart = max(apart, distance.max().item())
        if not apart <= TOLERANCE[one.dtype]:
            raise Wrong(f"{apart:.2e} from the CPU's, of {TOLERANCE[one.dtype]:.0e}")
    return {"largest error": apart}


add("MLX works", _works)
for _name in sorted(mlx_ops.TABLE):
    add(_name, functools.partial(_as_on_the_cpu, _name))

if __name__ == "__main__":
    main()
