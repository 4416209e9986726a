"""Operators that work element by element: functions, methods, in place, into ``out=``, with numbers and 0-d tensors."""

from __future__ import annotations

from calls import Call, row
from drawing import ALL, COMPLEX, FLOATS, INTEGERS, Draw, Skip, name_of

_UNARY = (
    "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sigmoid square reciprocal sign sgn ceil floor round trunc frac erf erfc lgamma digamma logit nan_to_num "
    "positive deg2rad rad2deg i0 sinc"
).split()
#: without an in-place variant, or not only for numbers
_ONLY_FUNCTIONS = (
    "isnan isinf isfinite isneginf isposinf signbit logical_not angle real imag conj_physical bitwise_not "
    "special.erfcx special.ndtr special.i0e special.i1 special.i1e special.entr special.log_ndtr special.bessel_j0 "
    "special.bessel_j1 is_nonzero resolve_conj resolve_neg conj relu zeros_like ones_like clone isreal"
).split()
_BINARY = (
    "add sub mul div maximum minimum atan2 hypot copysign fmax fmin logaddexp logaddexp2 xlogy true_divide".split()
)
_COMPARING = "eq ne lt le gt ge logical_and logical_or logical_xor isclose".split()
_BITS = "bitwise_and bitwise_or bitwise_xor gcd lcm".split()
_ACTIVATIONS = (
    "relu relu6 elu selu celu gelu silu mish hardtanh hardswish hardsigmoid leaky_relu logsigmoid softplus softsign "
    "tanhshrink hardshrink softshrink threshold rrelu"
).split()
_NUMERIC = (*FLOATS, *COMPLEX, *INTEGERS)


def _into(d: Draw, call: str, x: str) -> Call | None:
    """Write into a tensor that is there, or into an empty one."""
    if d.differentiates:
        return None
    op = call.split("(")[0].removeprefix("torch.")
    if d.chance(0.5):
        target = d.like(x, tuple({name_of(d.known[x].dtype), d.dtype(FLOATS)}))
        return Call(f"{call}, out={target})", op, gives=0, writes=True)
    dtype = name_of(d.known[x].dtype) if d.chance(0.7) else d.dtype()
    return Call(
        f"{call}, out=torch.empty({d.one(tuple(d.known[x].shape), (0,))}, dtype=torch.{dtype}, device=DEV))", op
    )


@row("pointwise", 8)
def unary(d: Draw) -> Call:
    op = d.one(*_UNARY)
    x = d.tensor(ALL if d.chance(0.3) else (*FLOATS, *COMPLEX))
    form = d.rng.random()
    if form < 0.2:
        return Call(f"{x}.{op}_()", f"{op}_", gives=0, writes=True)
    if form < 0.3 and (call := _into(d, f"torch.{op}({x}", x)):
        return call
    return Call(f"{x}.{op}()" if d.chance(0.4) else f"torch.{op}({x})", op)


@row("pointwise", 3)
def unary_function(d: Draw) -> Call:
    op = d.one(*_ONLY_FUNCTIONS)
    if op == "is_nonzero":
        return Call(f"bool({d.tensor(ALL, most=0)})", "bool")
    return Call(f"torch.{op}({d.tensor()})", op)


@row("pointwise", 12)
def binary(d: Draw) -> Call:
    op, x = d.one(*_BINARY), d.tensor()
    y = d.operand(x)
    form, more = d.rng.random(), ""
    if op in ("add", "sub") and d.chance(0.3):
        more = f", alpha={d.one('2', '3', '0.5', '0.1', '-1')}"
    if op == "div" and d.chance(0.4):
        more = f", rounding_mode={d.one('None', repr('floor'), repr('trunc'))}"
        if "floor" in more or "trunc" in more:
            y = d.one("2", "3.0", "-4", "0.5")
    if form < 0.25 and op not in ("maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2"):
        return Call(f"{x}.{op}_({y}{more})", f"{op}_", gives=0, writes=True)
    if y not in d.known and op not in ("add", "sub", "mul", "div", "xlogy", "true_divide", "copysign"):
        y = d.like(x)
    if form < 0.35 and (call := _into(d, f"torch.{op}({x}, {y}{more}", x)):
        return call
    if op == "xlogy" and y not in d.known and d.chance(0.5):
        return Call(f"torch.xlogy({y}, {x})", op)
    if y in d.known and d.chance(0.3):
        x, y = y, x
    return Call(f"{x}.{op}({y}{more})" if d.chance(0.3) else f"torch.{op}({x}, {y}{more})", op)


@row("pointwise", 4)
def python_operator(d: Draw) -> Call:
    x = d.tensor()
    y = d.operand(x)
    sign = d.one("+", "-", "*", "/", "<", ">=", "==", "!=", "&", "|", "^")
    if sign in "&|^":
        x = d.tensor((*INTEGERS, "bool"))
        y = d.operand(x, (*INTEGERS, "bool"))
        if y not in d.known and "." in y:
            raise Skip
    if y in d.known and sign in "+-*&|^" and d.chance(0.2):
        return Call(f"{x} {sign}= {y}", f"i{sign}", gives=0, writes=True)
    turned = d.chance(0.4) or sign in "&|^"
    return Call(f"{x} {sign} {y}" if turned else f"{y} {sign} {x}", f"operator {sign}")


@row("pointwise", 2)
def remainders(d: Draw) -> Call:
    """Whole numbers are divided by numbers that are not zero: a GPU does not refuse zero, and gives anything."""
    x, op = d.tensor(_NUMERIC), d.one("remainder", "fmod", "floor_divide")
    y = d.one(
        "2", "3", "-5", "2.5", f"make({d.key()}, (), torch.{d.dtype((*FLOATS, 'int64', 'int32', 'int8'))}, 8, 24)"
    )
    if d.chance(0.25):
        return Call(f"{x}.{op}_({y})", f"{op}_", gives=0, writes=True)
    return Call(f"torch.{op}({x}, {y})", op)


@row("pointwise", 2)
def power(d: Draw) -> Call:
    x = d.tensor()
    if d.chance(0.3):
        return Call(f"torch.pow({d.one('2', '0.5', '3', '1')}, {x})", "pow")
    y = d.one("2", "3", "0.5", "2.0", "1", "0", "-1", "1.5", f"make({d.key()}, (), torch.{d.dtype()}, 0, 24)")
    if d.chance(0.2):
        return Call(f"{x}.pow_({y})", "pow_", gives=0, writes=True)
    return Call(f"{x} ** {y}" if d.chance(0.5) else f"torch.pow({x}, {y})", "pow")


@row("pointwise", 3)
def comparing(d: Draw) -> Call:
    op, x = d.one(*_COMPARING), d.tensor()
    y = d.operand(x)
    if y not in d.known and (op.startswith("logical") or op == "isclose"):
        y = d.like(x)
    if op != "isclose" and d.chance(0.15):
        return Call(f"{x}.{op}_({y})", f"{op}_", gives=0, writes=True)
    return Call(f"torch.{op}({x}, {y})", op)


@row("pointwise", 2)
def bits(d: Draw) -> Call:
    op, x = d.one(*_BITS), d.tensor((*INTEGERS, "bool"))
    return Call(f"torch.{op}({x}, {d.like(x, (*INTEGERS, 'bool'))})", op)


@row("pointwise", 1)
def shifts(d: Draw) -> Call:
    x = d.tensor(INTEGERS)
    return Call(f"{x} {d.one('<<', '>>')} {d.one(0, 1, 3)}", "shift")


@row("pointwise", 4)
def three(d: Draw) -> Call:
    x = d.tensor((*FLOATS, *COMPLEX))
    op = d.one("addcmul", "addcdiv", "lerp", "where", "clamp", "where", "clamp")
    if op == "where":
        mask = d.like(x, ("bool",))
        return Call(f"torch.where({mask}, {x}, {d.operand(x)})", op)
    if op == "clamp":
        x = d.tensor((*FLOATS, *INTEGERS))
        low, high = d.one("None", "-1", "0.5", d.like(x)), d.one("2", "1.5", d.like(x))
        if d.chance(0.25):
            return Call(f"{x}.clamp_({low}, {high})", "clamp_", gives=0, writes=True)
        if low not in d.known and low != "None" and high in d.known:
            low = "None"
        if low in d.known and high not in d.known:
            high = "None"
        return Call(f"torch.clamp({x}, {low}, {high})", op)
    y = d.like(x) if d.chance(0.7) else d.operand(x, (name_of(d.known[x].dtype),))
    if y not in d.known:
        y = d.like(x)
    if op == "lerp":
        return Call(f"torch.lerp({x}, {y}, {d.one('0.5', '0.1', d.like(x))})", op)
    z, value = d.like(x), d.one("1", "2", "0.5", "0.1")
    if d.chance(0.25):
        return Call(f"{x}.{op}_({y}, {z}, value={value})", f"{op}_", gives=0, writes=True)
    return Call(f"torch.{op}({x}, {y}, {z}, value={value})", op)


@row("pointwise", 3)
def activation(d: Draw) -> Call:
    op, x = d.one(*_ACTIVATIONS), d.floating()
    more = {
        "threshold": ", 0.5, 2.0",
        "elu": d.one("", ", alpha=0.3"),
        "gelu": d.one("", ", approximate='tanh'"),
        "leaky_relu": d.one("", ", 0.2"),
        "softplus": d.one("", ", 2, 5"),
        "rrelu": ", training=False",
        "hardtanh": d.one("", ", -0.5, 2.0"),
    }.get(op, "")
    if op in ("relu", "elu", "hardtanh", "leaky_relu", "silu", "celu", "selu") and d.chance(0.2):
        return Call(f"F.{op}({x}{more}, inplace=True)", f"{op}_", gives=0, writes=True)
    return Call(f"F.{op}({x}{more})", op)


@row("pointwise", 2)
def casts(d: Draw) -> Call:
    """Turn into another dtype. A fraction that the whole numbers of a dtype do not have becomes anything."""
    x = d.tensor()
    value, dtype = d.known[x], d.dtype()
    if dtype in INTEGERS and (value.is_floating_point() or value.is_complex()):
        plain = (value.real if value.is_complex() else value).detach().double()
        if not bool(((plain.abs() < 100) & ((plain >= 0) | (dtype != "uint8"))).all()):
            raise Skip
    return Call(f"{x}.to(torch.{dtype}{d.one('', '', ', copy=True')})", "to")


@row("pointwise", 2)
def fills(d: Draw) -> Call:
    x = d.tensor()
    mask = d.operand(x, ("bool",))
    number = d.number(x)
    if d.known[x].dtype.is_complex is False and "j" in number:
        raise Skip
    if mask not in d.known or d.chance(0.3):
        return Call(d.one(f"{x}.zero_()", f"{x}.fill_({number})"), "fill_", gives=0, writes=True)
    if d.chance(0.5):
        return Call(f"{x}.masked_fill_({mask}, {number})", "masked_fill_", gives=0, writes=True)
    return Call(f"{x}.masked_fill({mask}, {number})", "masked_fill")


@row("pointwise", 1)
def copies(d: Draw) -> Call:
    x = d.tensor()
    y = d.operand(x)
    if y not in d.known:
        raise Skip
    value = d.known[y].detach()
    if (
        not d.known[x].is_floating_point()
        and not d.known[x].is_complex()
        and (value.is_floating_point() or value.is_complex())
    ):
        raise Skip
    return Call(f"{x}.copy_({y})", "copy_", gives=0, writes=True)


@row("pointwise", 1)
def foreach(d: Draw) -> Call:
    x = d.floating()
    y, z = d.fresh(x), d.fresh(x)
    form = d.rng.random()
    if form < 0.3:
        return Call(f"torch._foreach_add_([{x}, {z}], {d.one('1', '0.1', f'[{y}, {y}]')})", "_foreach_add_", 0, True)
    if form < 0.6:
        return Call(f"torch._foreach_mul([{x}, {y}], {d.one('2', '0.1', f'[{z}, {y}]')})", "_foreach_mul", 2)
    op = d.one("exp", "sqrt", "neg", "abs", "tanh", "sigmoid")
    return Call(f"torch._foreach_{op}([{x}, {y}])", f"_foreach_{op}", 2)
