"""C++ for operations on single elements: templates by name."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Op, Type, Unsupported
from ..tiles import is_float, name_type
from .libdevice import write_extern

# {0}, {1}, {2}: operands; {t}: the result's type; {e}: the type of the first operand; {w0}: an operand that is computed
# with, float where it has 16 or 8 bits.
_TEMPLATES = {
    "arith.addi": "({t})({0} + {1})",
    "arith.subi": "({t})({0} - {1})",
    "arith.muli": "({t})({0} * {1})",
    "arith.andi": "({t})({0} & {1})",
    "arith.ori": "({t})({0} | {1})",
    "arith.xori": "({t})({0} ^ {1})",
    "arith.divsi": "divide_signed<{t}>({0}, {1})",
    "arith.remsi": "remainder_signed<{t}>({0}, {1})",
    "arith.divui": "divide_unsigned<{t}>({0}, {1})",
    "arith.remui": "remainder_unsigned<{t}>({0}, {1})",
    "arith.ceildivsi": "divide_ceiling<{t}>({0}, {1})",
    "arith.floordivsi": "divide_floor<{t}>({0}, {1})",
    "arith.shli": "shift_left<{t}>({0}, {1})",
    "arith.shrui": "shift_right_unsigned<{t}>({0}, {1})",
    "arith.shrsi": "shift_right_signed<{t}>({0}, {1})",
    "arith.addf": "({t})({w0} + {w1})",
    "arith.subf": "({t})({w0} - {w1})",
    "arith.mulf": "({t})({w0} * {w1})",
    "arith.divf": "({t})({w0} / {w1})",
    "arith.remf": "({t})fn_fmod({w0}, {w1})",
    "arith.negf": "({t})(-{w0})",
    "arith.maxnumf": "({t})max_number({w0}, {w1})",
    "arith.minnumf": "({t})min_number({w0}, {w1})",
    "arith.maximumf": "({t})max_nan({w0}, {w1})",
    "arith.minimumf": "({t})min_nan({w0}, {w1})",
    "arith.maxsi": "larger<{t}>({0}, {1})",
    "arith.minsi": "smaller<{t}>({0}, {1})",
    "arith.maxui": "larger_unsigned<{t}>({0}, {1})",
    "arith.minui": "smaller_unsigned<{t}>({0}, {1})",
    "arith.select": "({0} ? {1} : {2})",
    "arith.extui": "({t})as_unsigned({0})",
    "arith.uitofp": "({t})(float)as_unsigned({0})",
    "arith.extf": "({t}){w0}",
    "arith.index_cast": "({t}){0}",
    "arith.fptosi": "to_integer<{t}>({w0})",
    "arith.fptoui": "({t})to_integer<make_unsigned<{t}>::type>({w0})",
    "arith.bitcast": "bits_as<{t}>({0})",
    "tt.addptr": "({0} + {1})",
    "tt.int_to_ptr": "({t}){0}",
    "tt.ptr_to_int": "(int64_t){0}",
    "tt.mulhiui": "multiply_high({0}, {1})",
    "tt.precise_sqrt": "({t})fn_sqrt({w0})",
    "tt.approx_divf": "({t})({w0} / {w1})",
    "tt.precise_divf": "({t})({w0} / {w1})",
    "math.absi": "fn_abs<{t}>({0})",
    "math.fma": "({t})fn_fma({w0}, {w1}, {w2})",
    "math.absf": "({t})fn_fabs({w0})",
    "math.powf": "({t})fn_pow({w0}, {w1})",
    "math.copysign": "({t})fn_copysign({w0}, {w1})",
    "math.isnan": "(bool)fn_isnan({w0})",
    "math.isinf": "(bool)fn_isinf({w0})",
    "math.isfinite": "(bool)fn_isfinite({w0})",
    "math.ctpop": "({t})fn_popc({0})",
    "math.ctlz": "({t})fn_clz({0})",
}
_MATH = (
    "sqrt rsqrt exp exp2 log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "erfc floor ceil trunc round cbrt"
).split()
_TEMPLATES |= {f"math.{name}": f"({{t}})fn_{name}({{w0}})" for name in _MATH}
_TEMPLATES["math.roundeven"] = "({t})fn_rint({w0})"
_TEMPLATES["math.atan2"] = "({t})fn_atan2({w0}, {w1})"

_COMPARISONS = {
    "eq": "({0} == {1})", "ne": "({0} != {1})", "slt": "({0} < {1})", "sle": "({0} <= {1})", "sgt": "({0} > {1})",
    "sge": "({0} >= {1})", "ult": "(as_unsigned({0}) < as_unsigned({1}))",
    "ule": "(as_unsigned({0}) <= as_unsigned({1}))",
    "ugt": "(as_unsigned({0}) > as_unsigned({1}))", "uge": "(as_unsigned({0}) >= as_unsigned({1}))",
}  # fmt: skip
#: Integers of one bit: true is 1 or -1, by the operation's sign, and sums have one bit.
_BOOLEANS = {
    "arith.addi": "({0} != {1})", "arith.subi": "({0} != {1})", "arith.maxsi": "({0} && {1})",
    "arith.minsi": "({0} || {1})",
}  # fmt: skip
_BOOLEAN_COMPARISONS = {
    "slt": "({0} > {1})", "sle": "({0} >= {1})", "sgt": "({0} < {1})", "sge": "({0} <= {1})",
}  # fmt: skip
_FLOAT_COMPARISONS = {
    "false": "false", "true": "true", "oeq": "({w0} == {w1})", "one": "({w0} < {w1} || {w0} > {w1})",
    "olt": "({w0} < {w1})", "ole": "({w0} <= {w1})", "ogt": "({w0} > {w1})", "oge": "({w0} >= {w1})",
    "ord": "({w0} == {w0} && {w1} == {w1})", "uno": "({w0} != {w0} || {w1} != {w1})",
    "ueq": "!({w0} < {w1} || {w0} > {w1})", "une": "({w0} != {w1})", "ult": "!({w0} >= {w1})", "ule": "!({w0} > {w1})",
    "ugt": "!({w0} <= {w1})", "uge": "!({w0} < {w1})",
}  # fmt: skip


def read_predicate(op: Op) -> str:
    """Return how a comparison compares."""
    return op.find(r"^arith\.cmp[if] (\w+),") if op.name in ("arith.cmpi", "arith.cmpf") else ""


def write_element(op: Op, given: Sequence[str], of: Sequence[Type], type_: Type) -> str:
    """Return C++ for an element of an operation's result."""
    template = _find_template(op, of, type_)
    wide = {f"w{index}": f"widen({text})" for index, text in enumerate(given)}
    narrow = ("f16", "bf16", "f8")
    plain = {f"w{index}": text for index, text in enumerate(given) if not of[index].element.startswith(narrow)}
    return template.format(*given, **{**wide, **plain}, t=name_type(type_.element), e=name_type(of[0].element))


def _find_template(op: Op, of: Sequence[Type], type_: Type) -> str:
    name, from_, to = op.name, of[0].element, type_.element
    if from_ == "i1" and name in _BOOLEANS:
        return _BOOLEANS[name]
    if name == "arith.cmpi" and from_ == "i1":
        return _BOOLEAN_COMPARISONS.get(read_predicate(op), _COMPARISONS[read_predicate(op)])
    if name == "arith.cmpi":
        return _COMPARISONS[read_predicate(op)]
    if name == "arith.cmpf":
        return _FLOAT_COMPARISONS[read_predicate(op)]
    if name in ("arith.extsi", "arith.sitofp"):
        value = "(int8_t)-(int8_t){0}" if from_ == "i1" else "{0}"
        return f"({{t}})({value})" if name == "arith.extsi" or to in ("f32", "f64") else f"({{t}})(float)({value})"
    if name == "arith.uitofp" and to == "f64":
        return "({t})as_unsigned({0})"
    if name == "arith.trunci":
        return "(bool)({0} & 1)" if to == "i1" else "({t})({0})"
    if name in ("arith.truncf", "tt.fp_to_fp"):
        via = "(float)" if from_ == "f64" and to != "f32" else ""
        is_cut = "rounding = rtz" in op.text and to not in ("f32", "f64")
        return "round_toward_zero<{t}>((float){w0})" if is_cut else f"({{t}}){via}{{w0}}"
    if name == "tt.bitcast":
        return "({t}){0}" if type_.is_pointer else "bits_as<{t}>({0})"
    if name == "tt.clampf":
        limit = "nan" if "propagateNan = all" in op.text else "number"
        return f"({{t}})min_{limit}(max_{limit}({{w0}}, {{w1}}), {{w2}})"
    if name == "tt.extern_elementwise":
        return write_extern(op.find(r'symbol = "(\w+)"'), len(of))
    if name not in _TEMPLATES:
        raise Unsupported(f"the operation {name}")
    return _TEMPLATES[name]


def write_literal(op: Op, type_: Type) -> tuple[str, int | None]:
    """Return C++ for a constant, and its number if it is an integer."""
    text = op.find(r"arith\.constant (?:\{.*?\} )?(.*?)\s*$")
    if text.startswith("dense<"):
        text = text[6:-1]
    c_type = name_type(type_.element)
    if text in ("true", "false"):
        return text, int(text == "true")
    if text.startswith("["):
        raise Unsupported("a constant of several elements")
    if not is_float(type_.element):
        number = int(text)
        return f"(({c_type}){number & ((1 << 64) - 1)}ull)", number
    if text.startswith("0x"):
        bits = {"f32": "uint32_t", "f64": "uint64_t", "f16": "uint16_t", "bf16": "uint16_t"}.get(
            type_.element, "uint8_t"
        )
        return f"bits_as<{c_type}>(({bits}){text})", None
    return f"(({c_type}){text}{'' if type_.element == 'f64' else 'f'})", None
