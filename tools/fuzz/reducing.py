"""Reductions, cumulative operators, sorting, linear algebra."""

from __future__ import annotations

from calls import Call, row
from drawing import ALL, COMPLEX, FLOATS, INTEGERS, Draw, Skip, name_of

#: What LAPACK computes with.
_EXACT = ("float32", "float64", "complex64", "complex128")


@row("reductions", 8)
def reduced(d: Draw) -> Call:
    x = d.tensor()
    op = d.one(
        *("sum", "mean", "prod", "amax", "amin", "all", "any", "std", "var", "logsumexp", "nansum", "nanmean", "norm"),
        *("count_nonzero", "sum", "mean", "aminmax", "linalg.vector_norm", "max", "min", "median", "nanmedian"),
    )
    if op in ("std", "var", "logsumexp", "norm", "linalg.vector_norm", "nanmean") and d.chance(0.9):
        x = d.tensor((*FLOATS, *COMPLEX) if op != "logsumexp" else FLOATS)
    keep = d.one("", "", ", keepdim=True")
    if op == "count_nonzero":
        return Call(f"torch.count_nonzero({x}, {d.dim(x)})", op)
    if op == "aminmax":
        return Call(f"torch.aminmax({x}, dim={d.dim(x)}{keep})", op, 2)
    if op in ("max", "min", "median", "nanmedian"):
        if d.chance(0.4):
            return Call(f"torch.{op}({x})", op)
        return Call(f"torch.{op}({x}, {d.dim(x)}{keep}).values", f"{op} dim")
    if op in ("linalg.vector_norm", "norm"):
        order = d.one("2", "1", "0", "3", "float('inf')", "0.5")
        return Call(f"torch.{op}({x}, {order}, {d.one('None', d.dim(x))}{keep})", op)
    if op in ("std", "var"):
        dims = d.dims(x)
        form = d.one(f"torch.{op}({x}, {dims}, correction={d.one(0, 1, 2)}{keep})", f"torch.{op}({x})")
        return Call(form, op)
    if op == "prod":
        return Call(d.one(f"torch.prod({x}, {d.dim(x)}{keep})", f"torch.prod({x})"), op)
    dims = d.dims(x)
    if op == "logsumexp":
        return Call(f"torch.logsumexp({x}, {dims}{keep})", op)
    if op in ("sum", "mean", "nansum") and d.chance(0.15):
        return Call(f"torch.{op}({x}, {dims}{keep}, dtype=torch.{d.dtype(FLOATS)})", op)
    whole = d.chance(0.3) and op not in ("amax", "amin")
    return Call(f"torch.{op}({x})" if whole else f"torch.{op}({x}, {dims}{keep})", op)


@row("reductions", 3)
def cumulative(d: Draw) -> Call:
    x = d.tensor()
    op = d.one(
        "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "diff", "trapezoid", "softmax", "log_softmax", "cov"
    )
    where = d.dim(x)
    if op in ("cummax", "cummin"):
        return Call(f"torch.{op}({x}, {where}).values", op)
    if op in ("cumsum", "cumprod") and d.chance(0.2):
        return Call(f"{x}.{op}_({where})", f"{op}_", 0, True)
    if op in ("softmax", "log_softmax"):
        x = d.floating()
        return Call(f"torch.{op}({x}, {d.dim(x)})", op)
    if op == "cov":
        x = d.tensor((*FLOATS, *COMPLEX), 1, 2, full=True)
        return Call(f"torch.{d.one('cov', 'corrcoef')}({x})", op)
    if op == "diff":
        return Call(f"torch.diff({x}, n={d.one(1, 2)}, dim={where})", op)
    if op == "trapezoid":
        return Call(f"torch.trapezoid({x}, dim={where})", op)
    return Call(f"torch.{op}({x}, {where})", op)


def _distinct(d: Draw, least: int = 1) -> str:
    """Choose a tensor without equal elements: of those a GPU sorts which is first is its own affair."""
    found = d.tensor((*FLOATS, *INTEGERS), least, full=True)
    value = d.known[found].detach()
    if value.unique().numel() == value.numel() and bool(value.isfinite().all()):
        return found
    return d.leaf(d.dtype(("float32", "float64", "int64", "int32", "int16")), d.shape(least, 3, False), "distinct")


@row("sorting", 4)
def ordered(d: Draw) -> Call:
    op = d.one(
        "sort", "topk", "argsort", "kthvalue", "argmax", "argmin", "max dim", "msort", "mode", "cummax", "median"
    )
    if op in ("sort", "topk", "kthvalue", "mode", "msort") and not d.differentiates and d.chance(0.5):
        x = d.tensor((*FLOATS, *INTEGERS, "bool"), 1, full=True)
        where = d.dim(x)
        size = d.known[x].shape[where]
        if op in ("topk", "kthvalue"):
            return Call(f"torch.{op}({x}, {d.rng.randint(1, size)}, {where}).values", op)
        if op == "sort":
            flag = d.one("", ", descending=True", ", stable=True")
            if "stable" in flag:
                return Call(f"torch.sort({x}, dim={where}{flag})", "sort stable", 2)
            return Call(f"torch.sort({x}, {where}{flag}).values", op)
        return Call(f"torch.msort({x})" if op == "msort" else f"torch.mode({x}, {where}).values", op)
    x = _distinct(d)
    where = d.dim(x)
    size = d.known[x].shape[where]
    if op in ("topk", "kthvalue"):
        return Call(f"torch.{op}({x}, {d.rng.randint(1, size)}, {where})", f"{op} indices", 2)
    if op in ("argmax", "argmin"):
        return Call(f"torch.{op}({x}{d.one('', f', {where}', f', {where}, keepdim=True')})", op)
    if op == "argsort":
        return Call(f"torch.argsort({x}, {where}{d.one('', ', descending=True')})", op)
    if op in ("max dim", "median"):
        return Call(f"torch.{d.one('max', 'min') if op == 'max dim' else op}({x}, {where})", f"{op} indices", 2)
    if op == "cummax":
        return Call(f"torch.{d.one('cummax', 'cummin')}({x}, {where})", "cummax indices", 2)
    return Call(f"torch.sort({x}, {where}{d.one('', ', descending=True')})", "sort indices", 2)


@row("sorting", 3)
def searched(d: Draw) -> Call:
    op = d.one(
        "unique", "unique_consecutive", "nonzero", "bincount", "searchsorted", "bucketize", "histc", "isin", "argwhere"
    )
    if op == "unique":
        x = d.tensor((*FLOATS, *INTEGERS, "bool"))
        if d.chance(0.5):
            return Call(f"torch.unique({x}, return_inverse=True, return_counts=True)", op, 3)
        if d.known[x].dim() and d.chance(0.4):
            return Call(f"torch.unique({x}, dim={d.dim(x)})", f"{op} dim")
        return Call(f"torch.unique({x})", op)
    if op == "unique_consecutive":
        return Call(f"torch.unique_consecutive({d.tensor()})", op)
    if op == "bincount":
        return Call(f"torch.bincount(index({d.key()}, ({d.one(0, 5, 9)},), 6){d.one('', ', minlength=8')})", op)
    if op == "isin":
        x = d.tensor((*FLOATS, *INTEGERS))
        return Call(f"torch.isin({x}, {d.fresh(x, (3,))})", op)
    if op == "histc":
        return Call(f"torch.histc({d.tensor(('float32', 'float64'))}, 5, -2.03, 2.03)", op)
    if op in ("searchsorted", "bucketize"):
        x = d.tensor((*FLOATS, *INTEGERS))
        steps = f"torch.sort({d.fresh(x, (5,))}).values"
        right = d.one("", ", right=True")
        call = (
            f"torch.bucketize({x}, {steps}{right})" if op == "bucketize" else f"torch.searchsorted({steps}, {x}{right})"
        )
        return Call(call, op)
    return Call(f"torch.{op}({d.tensor()})", op)


@row("linear algebra", 5)
def products(d: Draw) -> Call:
    op = d.one(
        "matmul",
        "mm",
        "bmm",
        "mv",
        "dot",
        "outer",
        "addmm",
        "baddbmm",
        "einsum",
        "linear",
        "tensordot",
        "kron",
        "addmv",
        "inner",
        "vdot",
    )
    x = d.tensor((*FLOATS, *COMPLEX) if d.chance(0.85) else ALL, *{
        "matmul": (1, 3), "mm": (2, 2), "bmm": (3, 3), "mv": (2, 2), "dot": (1, 1), "outer": (1, 1), "addmm": (2, 2),
        "baddbmm": (3, 3), "einsum": (2, 2), "linear": (1, 3), "tensordot": (2, 2), "kron": (1, 2), "addmv": (2, 2),
        "inner": (1, 2), "vdot": (1, 1),
    }[op])  # fmt: skip
    shape = tuple(d.known[x].shape)
    other = d.one(2, 3, 1, 5)
    if op in ("dot", "vdot"):
        return Call(f"torch.{op}({x}, {d.fresh(x)})", op)
    if op in ("outer", "kron", "inner"):
        y = d.fresh(x, (*shape[:-1], shape[-1])) if op == "inner" else d.fresh(x, (other,) * len(shape))
        return Call(f"torch.{op}({x}, {y})", op)
    if op in ("mv", "addmv"):
        y = d.fresh(x, (shape[1],))
        if op == "mv":
            return Call(f"{x} @ {y}" if d.chance(0.5) else f"torch.mv({x}, {y})", op)
        return Call(f"torch.addmv({d.fresh(x, (shape[0],))}, {x}, {y}, beta={d.one(1, 2)}, alpha={d.one(1, 2)})", op)
    if op == "linear":
        bias = d.one("None", d.fresh(x, (other,)))
        return Call(f"F.linear({x}, {d.fresh(x, (other, shape[-1]))}, {bias})", op)
    y = d.fresh(x, (*(shape[:-2] if len(shape) == 3 else ()), shape[-1], other))
    if op in ("addmm", "baddbmm"):
        start = d.fresh(x, d.one((*shape[:-1], other), (other,), (*shape[:-2], 1, other)))
        numbers = d.one("", f", beta={d.one(0, 2)}, alpha={d.one(1, 3)}")
        return Call(f"torch.{op}({start}, {x}, {y}{numbers})", op)
    if op == "einsum":
        form = d.one("ij,jk->ik", "ij,jk->ki", "ij,jk->i", "ij,jk->ijk")
        return Call(f"torch.einsum({form!r}, {x}, {y})", op)
    if op == "tensordot":
        return Call(f"torch.tensordot({x}, {y}, 1)", op)
    if op == "matmul" and not d.differentiates and d.chance(0.2) and len(shape) == 2:
        dtype = name_of(d.known[x].dtype)
        return Call(f"torch.matmul({x}, {y}, out=torch.empty(0, dtype=torch.{dtype}, device=DEV))", op)
    return Call(f"torch.{op}({x}, {y})", op)


@row("linear algebra", 2)
def decompositions(d: Draw) -> Call:
    """Matrices are well conditioned, and what is unique alone is compared."""
    dtype, size = d.dtype(_EXACT), d.one(1, 2, 3, 4)
    x = d.leaf(dtype, d.one((size, size), (size, size), (2, size, size)), "definite")
    op = d.one(
        *("inv", "det", "slogdet", "solve", "cholesky", "eigvalsh", "svdvals", "qr", "lu", "pinv", "matrix_power"),
        *("triangular", "matrix_exp", "lstsq", "norm", "cond", "cross", "inv_ex", "cholesky_solve"),
    )
    y = d.fresh(x, (*d.known[x].shape[:-1], 2))
    simple = {"inv", "det", "cholesky", "eigvalsh", "svdvals", "pinv", "matrix_exp", "cond"}
    if op in simple:
        return Call(f"torch.linalg.{op}({x})", op)
    if op == "slogdet":
        return Call(f"torch.linalg.slogdet({x})", op, 2)
    if op == "solve":
        return Call(f"torch.linalg.solve({x}, {y})", op)
    if op == "qr":
        return Call(f"torch.linalg.qr({x})[1].abs()", op)
    if op == "lu":
        return Call(f"torch.linalg.lu({x})", op, 3)
    if op == "matrix_power":
        return Call(f"torch.linalg.matrix_power({x}, {d.one(0, 1, 2, 3)})", op)
    if op == "triangular":
        return Call(f"torch.linalg.solve_triangular({x}, {y}, upper={d.one(True, False)})", op)
    if op == "lstsq":
        return Call(f"torch.linalg.lstsq({x}, {y}).solution", op)
    if op == "norm":
        return Call(f"torch.linalg.matrix_norm({x}, {d.one(1, 2, repr('fro'), repr('nuc'))})", op)
    if op == "cross":
        z = d.leaf(dtype, (2, 3))
        return Call(f"torch.linalg.cross({z}, {d.fresh(z)})", op)
    if op == "inv_ex":
        return Call(f"torch.linalg.{d.one('inv_ex', 'cholesky_ex')}({x})", op, 2)
    return Call(f"torch.cholesky_solve({y}, torch.linalg.cholesky({x}))", op)


@row("linear algebra", 1)
def transforms(d: Draw) -> Call:
    op = d.one("fft", "ifft", "rfft", "fft2", "ihfft", "irfft", "hfft", "fftshift")
    if op in ("rfft", "ihfft"):
        x = d.tensor(("float32", "float64"), 1, 3, full=True)
    else:
        x = d.tensor(_EXACT, 2 if op == "fft2" else 1, 3, full=True)
    if "complex64" not in d.dtypes:
        raise Skip
    norm = d.one("", ", norm='ortho'")
    return Call(f"torch.fft.{op}({x}{'' if op in ('fft2', 'fftshift') else f', dim={d.dim(x)}{norm}'})", f"fft.{op}")
