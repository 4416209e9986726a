"""Draw variables, shapes and arguments for steps, from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

FLOATS = ("float64", "float32", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
ALL = (*FLOATS, *COMPLEX, *INTEGERS, "bool")
#: float32 is what programs mostly have.
_WEIGHTS = {"float32": 8, "float64": 3, "float16": 3, "bfloat16": 3, "complex64": 2, "complex128": 1, "int64": 3}
#: More elements than this no result has: it is about operators, not about speed.
LIMIT = 600


class Skip(Exception):
    """Say that there is nothing here that this operator could be called with."""


def name_of(dtype: torch.dtype) -> str:
    """Name a dtype as ``torch`` does."""
    return str(dtype).removeprefix("torch.")


class Draw:
    """Choose what the next step is about; inputs that it needs are made by steps of their own."""

    def __init__(
        self,
        rng: random.Random,
        known: dict[str, torch.Tensor],
        add: Callable[[str, str], str],
        dtypes: tuple[str, ...],
        differentiates: bool,
    ) -> None:
        self.rng, self.known, self._add = rng, known, add
        self.dtypes, self.differentiates = dtypes, differentiates

    # ------------------------------------------------------------------ small choices
    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def one(self, *values: Any) -> Any:
        return values[self.rng.randrange(len(values))]

    def key(self) -> int:
        return self.rng.randrange(1, 3000)

    def dtype(self, among: tuple[str, ...] = ALL) -> str:
        names = [name for name in among if name in self.dtypes]
        if not names:
            raise Skip
        return self.rng.choices(names, [_WEIGHTS.get(name, 1) for name in names])[0]

    def shape(self, least: int = 0, most: int = 4, is_empty_allowed: bool = True) -> tuple[int, ...]:
        count = self.rng.choice([n for n in (0, 1, 1, 2, 2, 2, 3, 3, 4) if least <= n <= most] or [least])
        sizes = (1, 2, 2, 3, 3, 4, 5) if count > 2 else (1, 1, 2, 3, 4, 5, 7, 17, 33)
        shape = [self.rng.choice(sizes) for _ in range(count)]
        while _product(shape) > LIMIT // 2:
            shape[shape.index(max(shape))] = 2
        if shape and is_empty_allowed and self.chance(0.06):
            shape[self.rng.randrange(count)] = 0
        return tuple(shape)

    def dim(self, x: str) -> int:
        count = self.known[x].dim()
        return self.rng.randrange(-count, count) if count else self.one(0, -1)

    def dims(self, x: str) -> str:
        count = self.known[x].dim()
        if not count:
            raise Skip
        chosen = self.rng.sample(range(count), self.rng.randint(1, min(3, count)))
        return str([d - count if self.chance(0.2) else d for d in chosen])

    def number(self, x: str | None = None) -> str:
        """Choose a Python number, or one in a 0-d tensor."""
        whole = self.rng.choice(("2", "3", "-1", "1", "5", "0"))
        fraction = self.rng.choice(("0.5", "2.0", "-1.25", "0.1", "3.7", "1e-3"))
        kinds = [whole, whole, fraction]
        if x is None or self.known[x].dtype is not torch.bool:
            kinds.append("True")
        if x is not None and self.known[x].is_complex():
            kinds.append("(1+2j)")
        return self.rng.choice(kinds)

    # ------------------------------------------------------------------ tensors
    def leaf(self, dtype: str, shape: tuple[int, ...], maker: str = "make", plain: bool = False) -> str:
        """Make an input, laid out one way or another."""
        code = f"{maker}({self.key()}, {{}}, torch.{dtype})"
        needs_grad = self.differentiates and dtype in (*FLOATS, *COMPLEX) and maker == "make" and self.chance(0.6)
        grad = ".requires_grad_()" if needs_grad else ""
        if plain or maker != "make":
            return self._add(code.format(shape) + grad, "leaf")
        return self._add(self._laid_out(code, shape, dtype, grad), "leaf")

    def _laid_out(self, code: str, shape: tuple[int, ...], dtype: str, grad: str) -> str:
        way = self.rng.choice(
            ("", "", "", "", "t", "expand", "step", "offset", "strided", "last", "conj", "neg", "dense")
        )
        count = len(shape)
        if way == "t" and count >= 2:
            order = self.rng.sample(range(count), count)
            turned = tuple(shape[order.index(d)] for d in range(count))
            return f"{code.format(turned)}{grad}.permute({tuple(order)})"
        if way == "expand" and count and shape:
            where = self.rng.randrange(count)
            thin = tuple(1 if d == where else size for d, size in enumerate(shape))
            return f"{code.format(thin)}{grad}.expand({shape})"
        if way == "step" and count:
            where = self.rng.randrange(count)
            wide = tuple(2 * size if d == where else size for d, size in enumerate(shape))
            return f"{code.format(wide)}{grad}[{':, ' * where}{self.one('::2', '1::2')}]"
        if way == "offset" and count:
            return f"{code.format((shape[0] + 2, *shape[1:]))}{grad}[{self.one('2:', '1:-1')}]"
        if way == "strided" and count in (1, 2) and all(shape):
            span = sum(shape) + 1
            stride = (1,) if count == 1 else self.one((1, 1), (2, 1), (1, 2))
            span += 2 * max(shape)
            return f"{code.format((span,))}{grad}.as_strided({shape}, {stride}, 1)"
        if way == "last" and count == 4:
            return f"{code.format(shape)}.to(memory_format=torch.channels_last){grad}"
        if way == "conj" and dtype in COMPLEX:
            return f"{code.format(shape)}{grad}.conj()"
        if way == "neg" and dtype in (*FLOATS, *COMPLEX):
            if dtype in FLOATS and dtype in ("float32", "float64") and self.chance(0.5):
                wide = {"float32": "complex64", "float64": "complex128"}[dtype]
                if wide in self.dtypes:
                    return f"{code.format(shape).replace(dtype, wide)}{grad}.conj().imag"
            return f"torch._neg_view({code.format(shape)}{grad})"
        return code.format(shape) + grad

    def tensor(
        self,
        among: tuple[str, ...] = ALL,
        least: int = 0,
        most: int = 5,
        fits: Callable[[torch.Tensor], bool] | None = None,
        full: bool = False,
    ) -> str:
        """Choose a variable of these dtypes and so many dimensions; sometimes a new one."""
        found = [
            name
            for name, value in self.known.items()
            if name_of(value.dtype) in among
            and least <= value.dim() <= most
            and (not full or value.numel())
            and (fits is None or fits(value))
        ]
        if found and self.chance(0.8):
            return self.rng.choice(found[-6:] if self.chance(0.6) else found)
        if fits is not None:
            raise Skip
        return self.leaf(self.dtype(among), self.shape(least, min(most, 4), is_empty_allowed=not full))

    def floating(self, **how: Any) -> str:
        return self.tensor(FLOATS, **how)

    def fresh(self, x: str, shape: tuple[int, ...] | None = None, **how: Any) -> str:
        """Make an input of the dtype of another."""
        value = self.known[x]
        return self.leaf(name_of(value.dtype), tuple(value.shape) if shape is None else shape, **how)

    def like(self, x: str, among: tuple[str, ...] | None = None) -> str:
        """Choose a tensor of the same shape; of the same dtype, unless others are named."""
        value = self.known[x]
        names = (name_of(value.dtype),) if among is None else among
        found = [n for n, v in self.known.items() if v.shape == value.shape and name_of(v.dtype) in names]
        if found and self.chance(0.7):
            return self.rng.choice(found)
        return self.leaf(self.dtype(names), tuple(value.shape))

    def operand(self, x: str, among: tuple[str, ...] | None = None) -> str:
        """Choose what is combined with a tensor: a number, a 0-d tensor, one of its shape, one that is broadcast."""
        value = self.known[x]
        names = among if among is not None else self.dtypes
        way = self.rng.random()
        if way < 0.2:
            return self.number(x)
        dtype = name_of(value.dtype) if self.chance(0.5) and name_of(value.dtype) in names else self.dtype(names)
        if way < 0.32:
            return self.leaf(dtype, ())
        if way < 0.6:
            return self.like(x, names if self.chance(0.5) else (dtype,))
        if way < 0.97:
            shape = list(value.shape)[self.rng.randint(0, value.dim()) if self.chance(0.4) else 0 :]
            shape = [1 if self.chance(0.35) else size for size in shape]
            if len(shape) < 4 and self.chance(0.1):
                shape.insert(0, 2)
            return self.leaf(dtype, tuple(shape))
        return self.tensor(names)


def _product(sizes: Any) -> int:
    made = 1
    for size in sizes:
        made *= size
    return made
