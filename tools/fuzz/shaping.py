"""Views, joins, indexing and moves of elements."""

from __future__ import annotations

import torch
from calls import Call, row
from drawing import ALL, COMPLEX, FLOATS, Draw, Skip, name_of


@row("views", 8)
def view(d: Draw) -> Call:
    x = d.tensor()
    value = d.known[x]
    shape, count = list(value.shape), value.dim()
    kind = d.one(
        *("permute", "transpose", "squeeze", "unsqueeze", "reshape", "view", "expand", "flatten", "narrow", "select"),
        *("slice", "slice", "T", "movedim", "unfold", "diagonal", "real", "swapaxes", "detach", "unbind", "contiguous"),
        *("chunk", "view_as", "as_strided", "memory_format", "mT", "view_dtype", "expand_as"),
    )
    if kind == "permute":
        return Call(f"{x}.permute({tuple(d.rng.sample(range(count), count))})", kind)
    if kind in ("transpose", "swapaxes", "movedim") and count:
        return Call(f"{x}.{kind}({d.dim(x)}, {d.dim(x)})", kind)
    if kind == "squeeze":
        return Call(f"{x}.squeeze({d.one('', d.dim(x))})", kind)
    if kind == "unsqueeze" and count < 5:
        return Call(f"{x}.unsqueeze({d.rng.randrange(-count - 1, count + 1)})", kind)
    if kind in ("reshape", "view"):
        return Call(f"{x}.{kind}({_other_shape(d, shape)})", kind)
    if kind == "expand":
        wide = [d.one(2, 3) if size == 1 else d.one(size, -1) for size in shape]
        return Call(f"{x}.expand({[2, *wide] if d.chance(0.2) and count < 4 else wide})", kind)
    if kind == "flatten":
        return Call(f"{x}.{d.one('flatten()', 'ravel()', 'reshape(-1)', 'view(-1)')}", kind)
    if kind in ("narrow", "select") and count:
        where = d.dim(x)
        size = shape[where]
        if not size:
            raise Skip
        at = d.rng.randrange(size)
        return Call(f"{x}.{kind}({where}, {at}{f', {d.rng.randint(0, size - at)}' if kind == 'narrow' else ''})", kind)
    if kind == "slice" and count:
        return Call(f"{x}[{_slices(d, shape)}]", kind)
    if kind == "unfold" and count:
        where = d.dim(x)
        return Call(f"{x}.unfold({where}, {d.rng.randint(1, max(1, shape[where]))}, {d.one(1, 2)})", kind)
    if kind == "diagonal" and count >= 2:
        return Call(f"{x}.diagonal({d.one(0, 1, -1)}, {d.dim(x)}, {d.dim(x)})", kind)
    if kind == "real" and value.is_complex():
        return Call(d.one(f"{x}.real", f"{x}.imag", f"{x}.conj()", f"torch.view_as_real({x}.resolve_conj())"), "real")
    if kind == "detach":
        return Call(d.one(f"{x}.detach()", f"{x}.detach().clone()", f"{x}.clone()"), kind)
    if kind in ("unbind", "chunk") and count and shape[0] in (1, 2, 3):
        word = "unbind()" if kind == "unbind" else f"chunk({shape[0]})"
        return Call(f"{x}.{word}{'[0]' if shape[0] == 1 else ''}", kind, shape[0])
    if kind == "contiguous":
        return Call(f"{x}.contiguous()", kind)
    if kind == "view_as":
        return Call(f"{x}.view_as({d.like(x)})", kind)
    if kind == "expand_as":
        return Call(f"{x}.expand_as({d.tensor()})", kind)
    if kind == "as_strided" and value.is_contiguous() and value.numel() >= 4:
        return Call(
            f"{x}.as_strided({d.one('(2, 2), (1, 2)', '(2, 2), (2, 1)', '(3,), (1,)', '(2, 2), (1, 1)')})", kind
        )
    if kind == "memory_format" and count == 4:
        return Call(f"{x}.contiguous(memory_format=torch.{d.one('channels_last', 'contiguous_format')})", "contiguous")
    if kind == "view_dtype":
        other = {"int64": "int32", "int32": "int16"}
        if (name := other.get(name_of(value.dtype))) and not d.differentiates and name in d.dtypes:
            return Call(f"{x}.view(torch.{name})", "view_dtype")
    if kind in ("T", "mT") and count == 2:
        return Call(f"{x}.{kind}", kind)
    raise Skip


def _other_shape(d: Draw, shape: list[int]) -> tuple[int, ...]:
    made = list(shape)
    if len(made) > 1 and d.chance(0.6):
        where = d.rng.randrange(len(made) - 1)
        made[where : where + 2] = [made[where] * made[where + 1]]
    else:
        for where, size in enumerate(made):
            if size > 3 and size % 2 == 0:
                made[where : where + 1] = [2, size // 2]
                break
    if made and 0 not in made and d.chance(0.3):
        made[d.rng.randrange(len(made))] = -1
    return tuple(made)


def _slices(d: Draw, shape: list[int]) -> str:
    parts = []
    for size in shape[: d.rng.randint(1, len(shape))]:
        kind = d.rng.random()
        if kind < 0.3:
            parts.append(":")
        elif kind < 0.5 and size:
            parts.append(str(d.rng.randrange(-size, size)))
        elif kind < 0.9:
            low = d.rng.randint(0, size)
            parts.append(f"{low}:{d.one('', d.rng.randint(low, size))}{d.one('', '', ':2', ':3')}")
        else:
            parts.append("None")
    if d.chance(0.1):
        parts.insert(0, "...")
    return ", ".join(parts)


@row("views", 3)
def assign(d: Draw) -> Call:
    """Write through an index: slices, masks, indices."""
    x = d.tensor(least=1)
    value = d.known[x]
    number = d.one("0", "2", "-1") if not value.is_floating_point() else d.one("0.5", "2", "-1.25")
    if value.dtype is torch.uint8:
        number = "3"
    kind = d.rng.random()
    if kind < 0.5:
        return Call(f"{x}[{_slices(d, list(value.shape))}] = {number}", "setitem", 0, True)
    if kind < 0.7:
        return Call(f"{x}[{d.like(x, ('bool',))}] = {number}", "setitem mask", 0, True)
    if not value.shape[0]:
        raise Skip
    y = d.fresh(x, (min(3, value.shape[0]), *value.shape[1:]))
    places = f"permuted({d.key()}, {value.shape[0]})[:{min(3, value.shape[0])}]"
    return Call(f"{x}[{places}] {d.one('=', '=', '+=')} {d.one(y, number)}", "setitem index", 0, True)


@row("moves", 4)
def joined(d: Draw) -> Call:
    x = d.tensor()
    count, op = d.rng.randint(1, 3), d.one("cat", "stack", "hstack", "vstack", "dstack", "cat", "column_stack")
    others = [d.like(x, ALL if d.chance(0.2) else None) for _ in range(count)]
    dim = f", {d.dim(x)}" if op in ("cat", "stack") else ""
    return Call(f"torch.{op}([{', '.join([x, *others])}]{dim})", op)


@row("moves", 4)
def rearranged(d: Draw) -> Call:
    x = d.tensor(least=1)
    count, shape = d.known[x].dim(), d.known[x].shape
    op = d.one(
        "flip", "roll", "rot90", "repeat", "tile", "repeat_interleave", "tril", "triu", "diag_embed", "pad", "fliplr"
    )
    if op == "flip":
        return Call(f"torch.flip({x}, {d.dims(x)})", op)
    if op == "roll":
        return Call(f"torch.roll({x}, {d.one(1, -2, 3)}, {d.dim(x)})", op)
    if op == "rot90" and count >= 2:
        return Call(f"torch.rot90({x}, {d.one(1, 2, 3)}, (0, 1))", op)
    if op in ("repeat", "tile"):
        return Call(f"{x}.{op}({tuple(d.one(1, 2) for _ in range(count))})", op)
    if op == "repeat_interleave":
        return Call(f"torch.repeat_interleave({x}, {d.one(1, 2, 3)}, {d.dim(x)})", op)
    if op in ("tril", "triu") and count >= 2:
        if d.chance(0.3):
            return Call(f"{x}.{op}_({d.one(0, 1, -1)})", f"{op}_", 0, True)
        return Call(f"torch.{op}({x}, {d.one(0, 1, -1)})", op)
    if op == "diag_embed" and shape[-1] < 8:
        return Call(f"torch.diag_embed({x}, {d.one(0, 1)})", op)
    if op == "pad":
        mode = d.one("constant", "constant", "reflect", "replicate", "circular")
        if mode == "constant":
            return Call(f"F.pad({x}, {d.one('(1, 2)', '(-1, 1)', '(0, 1)')}, value={d.one(0, 1, 2)})", op)
        x = d.tensor((*FLOATS, *COMPLEX), 3, 4, full=True)
        many = "(1, 0)" if d.known[x].dim() == 3 else "(1, 0, 0, 1)"
        return Call(f"F.pad({x}, {many}, mode={mode!r})", f"pad {mode}")
    if op == "fliplr" and count >= 2:
        return Call(d.one(f"torch.fliplr({x})", f"torch.flipud({x})"), op)
    raise Skip


@row("moves", 4)
def gathered(d: Draw) -> Call:
    x = d.tensor(least=1, full=True)
    shape = d.known[x].shape
    where = d.dim(x)
    op = d.one("gather", "index_select", "take", "take_along_dim", "getitem", "masked_select", "getitem mask", "two")
    if op == "gather":
        sizes = [d.rng.randint(1, s) if n != where % len(shape) else d.rng.randint(1, 4) for n, s in enumerate(shape)]
        return Call(f"torch.gather({x}, {where}, index({d.key()}, {tuple(sizes)}, {shape[where]}))", op)
    if op == "index_select":
        return Call(f"torch.index_select({x}, {where}, index({d.key()}, ({d.one(0, 1, 3)},), {shape[where]}))", op)
    if op == "take":
        return Call(f"torch.take({x}, index({d.key()}, {d.shape(most=2)}, {d.known[x].numel()}))", op)
    if op == "take_along_dim":
        return Call(f"torch.take_along_dim({x}, index({d.key()}, {tuple(shape)}, {shape[where]}), {where})", op)
    if op == "getitem":
        return Call(f"{x}[index({d.key()}, {d.shape(most=2)}, {shape[0]})]", op)
    if op == "two" and len(shape) >= 2:
        first, second = (f"index({d.key()}, (3,), {size})" for size in (shape[0], shape[-1]))
        return Call(f"{x}[{first}, ..., {second}]", "getitem two")
    mask = d.like(x, ("bool",))
    return Call(f"torch.masked_select({x}, {mask})" if op == "masked_select" else f"{x}[{mask}]", op)


@row("moves", 4)
def scattered(d: Draw) -> Call:
    """Write where indices say: a plain scatter to distinct ones, since of two writes either may be the last."""
    x = d.tensor(least=1, full=True)
    shape = d.known[x].shape
    where = d.dim(x)
    size = shape[where]
    op = d.one(
        "index_add",
        "index_copy",
        "index_fill",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "index_put",
        "masked_scatter",
    )
    suffix = d.one("", "_")
    count = 0 if suffix else 1
    several = f"index({d.key()}, (3,), {size})"
    own = tuple(3 if n == where % len(shape) else s for n, s in enumerate(shape))
    if op == "index_add":
        y, alpha = d.fresh(x, own), d.one("", "", ", alpha=2")
        return Call(f"{x}.index_add{suffix}({where}, {several}, {y}{alpha})", op + suffix, count, bool(suffix))
    if op == "index_fill":
        return Call(f"{x}.index_fill{suffix}({where}, {several}, {d.one(0, 1, 3)})", op + suffix, count, bool(suffix))
    if op == "index_copy":
        y = d.fresh(x)
        return Call(
            f"{x}.index_copy{suffix}({where}, permuted({d.key()}, {size}), {y})", op + suffix, count, bool(suffix)
        )
    if op == "masked_scatter":
        mask, y = d.like(x, ("bool",)), d.fresh(x)
        return Call(f"{x}.masked_scatter{suffix}({mask}, {y})", op + suffix, count, bool(suffix))
    if op == "index_put":
        y = d.fresh(x, (3, *shape[1:]))
        return Call(
            f"{x}.index_put{suffix}((index({d.key()}, (3,), {shape[0]}),), {y}, accumulate=True)",
            op + suffix,
            count,
            bool(suffix),
        )
    y = d.fresh(x)
    if op == "scatter":
        # one permutation, for every position of the other dimensions
        alone = tuple(size if n == where % len(shape) else 1 for n in range(len(shape)))
        around = f"permuted({d.key()}, {size}).reshape({alone})"
        return Call(
            f"{x}.scatter{suffix}({where}, {around}.expand({tuple(shape)}), {y})", op + suffix, count, bool(suffix)
        )
    places = f"index({d.key()}, {tuple(shape)}, {size})"
    if op == "scatter_add":
        return Call(f"{x}.scatter_add{suffix}({where}, {places}, {y})", op + suffix, count, bool(suffix))
    how = d.one("sum", "prod", "amax", "amin", "mean")
    more = d.one("", ", include_self=False")
    return Call(
        f"{x}.scatter_reduce{suffix}({where}, {places}, {y}, reduce={how!r}{more})",
        f"{op}{suffix} {how}",
        count,
        bool(suffix),
    )


@row("moves", 2)
def made(d: Draw) -> Call:
    x = d.tensor()
    dtype = d.dtype()
    op = d.one(
        "arange", "linspace", "full", "eye", "full_like", "new_zeros", "tri", "complex", "one_hot", "meshgrid", "bools"
    )
    if op == "arange":
        return Call(f"torch.arange({d.one('5', '1, 7, 2', '0, 1, 0.25')}, device=DEV)", op)
    if op == "linspace":
        return Call(
            f"torch.linspace(0, {d.one(1, 3)}, {d.one(1, 5, 8)}, dtype=torch.{d.dtype(FLOATS)}, device=DEV)", op
        )
    if op == "full":
        return Call(f"torch.full({d.shape()}, {d.one(1, 2)}, dtype=torch.{dtype}, device=DEV)", op)
    if op == "eye":
        return Call(f"torch.eye({d.one(2, 3)}, {d.one(2, 4)}, dtype=torch.{dtype}, device=DEV)", op)
    if op == "full_like":
        return Call(f"torch.full_like({x}, {d.one(1, 2)}{d.one('', f', dtype=torch.{dtype}')})", op)
    if op == "new_zeros":
        return Call(f"{x}.new_{d.one('zeros', 'ones')}({d.shape()})", op)
    if op == "tri":
        return Call(f"torch.{d.one('tril', 'triu')}_indices(3, 4, {d.one(0, 1)}, device=DEV)", op)
    if op == "complex" and "complex64" in d.dtypes:
        x = d.tensor(("float32", "float64"))
        return Call(f"torch.{d.one('complex', 'polar')}({x}, {d.like(x)})", op)
    if op == "one_hot":
        return Call(f"F.one_hot(index({d.key()}, {d.shape(most=2)}, 4), 4)", op)
    if op == "meshgrid":
        x, y = d.tensor(most=1, least=1), d.tensor(most=1, least=1)
        return Call(f"torch.meshgrid({x}, {y}, indexing={d.one('ij', 'xy')!r})", op, 2)
    return Call(f"torch.{d.one('equal', 'allclose')}({x}, {d.like(x)})", "equal")
