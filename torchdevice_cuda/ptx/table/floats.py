"""Arithmetic of real numbers."""

from __future__ import annotations

from .rows import Row

_RND = "rnd?:rn|rz|rm|rp"
_NARROW = "f16|f16x2|bf16|bf16x2"
_TWO, _ONE, _THREE = "d=t a:t b:t", "d=t a:t", "d=t a:t b:t c:t"
_MINIMUM = "#{0}<{{t}}, {{ftz}}, {{NaN}}, {{xorsign}}>({{a}}, {{b}})"

ROWS = [
    *(
        row
        for name in ("add", "sub", "mul")
        for row in (
            Row(name, f"{_RND} ftz? sat? t:f32", _TWO, f"#{name}<{{t}}, {{rnd}}, {{ftz}}, {{sat}}>({{a}}, {{b}})"),
            Row(name, f"{_RND} t:f64", _TWO, f"#{name}<{{t}}, {{rnd}}, false, false>({{a}}, {{b}})"),
            Row(name, f"{_RND} ftz? t:f32x2", _TWO, f"#{name}<{{t}}, {{rnd}}, {{ftz}}, false>({{a}}, {{b}})"),
            Row(
                name, f"rnd?:rn ftz? sat? t:{_NARROW}", _TWO, f"#{name}<{{t}}, {{rnd}}, {{ftz}}, {{sat}}>({{a}}, {{b}})"
            ),
        )
    ),
    *(
        row
        for name in ("fma", "mad")
        for row in (
            Row(name, f"{_RND} ftz? sat? t:f32", _THREE, "#fma<{t}, {rnd}, {ftz}, {sat}, false>({a}, {b}, {c})"),
            Row(name, f"{_RND} t:f64", _THREE, "#fma<{t}, {rnd}, false, false, false>({a}, {b}, {c})"),
        )
    ),
    Row("fma", f"{_RND} ftz? t:f32x2", _THREE, "#fma<{t}, {rnd}, {ftz}, false, false>({a}, {b}, {c})"),
    Row("fma", f"rnd:rn ftz? sat? relu? t:{_NARROW}", _THREE, "#fma<{t}, {rnd}, {ftz}, {sat}, {relu}>({a}, {b}, {c})"),
    Row("div", "kind:approx|full ftz? t:f32", _TWO, "#div_{kind}<{ftz}>({a}, {b})"),
    Row("div", "rnd:rn|rz|rm|rp ftz? t:f32", _TWO, "#div<{t}, {rnd}, {ftz}, false>({a}, {b})"),
    Row("div", "rnd:rn|rz|rm|rp t:f64", _TWO, "#div<{t}, {rnd}, false, false>({a}, {b})"),
    Row("rcp", "approx ftz? t:f32", _ONE, "#rcp<{t}, #RN, {ftz}, false>({a})"),
    Row("rcp", "approx ftz t:f64", _ONE, "#rcp_high({a})"),
    Row("rcp", "rnd:rn|rz|rm|rp ftz? t:f32|f64", _ONE, "#rcp<{t}, {rnd}, {ftz}, false>({a})"),
    Row("sqrt", "approx ftz? t:f32", _ONE, "#sqrt<{t}, #RN, {ftz}, false>({a})"),
    Row("sqrt", "rnd:rn|rz|rm|rp ftz? t:f32|f64", _ONE, "#sqrt<{t}, {rnd}, {ftz}, false>({a})"),
    Row("rsqrt", "approx ftz? t:f32|f64", _ONE, "#rsqrt<{t}, {ftz}>({a})"),
    *(Row(name, "approx ftz? t:f32", _ONE, f"#{name}<{{t}}, {{ftz}}>({{a}})") for name in ("sin", "cos", "lg2")),
    Row("ex2", f"approx ftz? t:f32|{_NARROW}", _ONE, "#ex2<{t}, {ftz}>({a})"),
    Row("tanh", f"approx t:f32|{_NARROW}", _ONE, "#tanh<{t}, false>({a})"),
    *(Row(name, f"ftz? t:f32|f64|{_NARROW}", _ONE, f"#{name}_float<{{t}}, {{ftz}}>({{a}})") for name in ("abs", "neg")),
    *(
        Row(name, f"ftz? NaN? xorsign? abs? t:f32|f64|{_NARROW}", _TWO, _MINIMUM.format(name + "_float"))
        for name in ("min", "max")
    ),
    Row("copysign", "t:f32|f64", _TWO, "#copysign({a}, {b})"),
    Row("testp", "op:finite|infinite|number|notanumber|normal|subnormal t:f32|f64", "p=pred a:t", "#is_{op}({a})"),
]
