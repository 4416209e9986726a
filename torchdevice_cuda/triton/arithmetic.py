"""Where triton's interpreter computes other numbers than a GPU: what it does instead, while a kernel runs."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .formats import BFLOAT16, HELD, narrowed, tf32, to_integers, widened

Function = Callable[..., Any]
#: Tensor cores read float32 from this architecture on.
_WITH_TF32 = 80
_BITWISE = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)


class Arithmetic:
    """Methods of the interpreter's builder, by their names."""

    def __init__(self, interpreter: Any) -> None:
        self._interpreter, self._handle = interpreter, interpreter.TensorHandle
        self._builder = type(interpreter.interpreter_builder)
        #: the architecture that the running kernel was compiled for
        self.architecture = 0

    def swaps(self) -> list[tuple[Any, str, Any, Any]]:
        """What is replaced: owner, name, and the two versions."""
        found = []
        reductions = self._interpreter.ReduceOps.__mro__[1]  # whose name releases spell differently
        for owner, names in ((self._builder, _METHODS), (reductions, ("apply",))):
            for name in names:
                if name in vars(owner):
                    before = vars(owner)[name]
                    found.append((owner, name, before, getattr(self, f"_{name}")(before)))
        return found

    def _wide(self, handle: Any) -> Any:
        """A handle of numbers that numpy computes with."""
        name = handle.dtype.scalar.name if hasattr(handle, "dtype") else ""
        return self._handle(widened(handle.data, name), self._interpreter.tl.float32) if name in HELD else handle

    def _narrow(self, handle: Any, type_: Any) -> Any:
        return self._handle(narrowed(handle.data, type_.scalar.name, None), type_.scalar)

    def _held(self, handle: Any) -> bool:
        return bool(handle.dtype.scalar.name == BFLOAT16)

    # ------------------------------------------------------------------ elements
    def _binary_op(self, original: Function) -> Function:
        def binary_op(builder: Any, left: Any, right: Any, operation: Any) -> Any:
            if not self._held(left) or operation in _BITWISE:
                return original(builder, left, right, operation)
            made = original(builder, self._wide(left), self._wide(right), operation)
            return made if made.data.dtype == np.bool_ else self._narrow(made, left.dtype)

        return binary_op

    def _ternary_op(self, original: Function) -> Function:
        def ternary_op(builder: Any, first: Any, second: Any, third: Any, operation: Any) -> Any:
            if not self._held(third) or operation is np.where:
                return original(builder, first, second, third, operation)
            made = original(builder, self._wide(first), self._wide(second), self._wide(third), operation)
            return self._narrow(made, third.dtype)

        return ternary_op

    def _unary_op(self, original: Function) -> Function:
        def unary_op(builder: Any, value: Any, operation: Any) -> Any:
            if not self._held(value):
                return original(builder, value, operation)
            return self._narrow(original(builder, self._wide(value), operation), value.dtype)

        return unary_op

    def _create_fma(self, original: Function) -> Function:
        def create_fma(builder: Any, x: Any, y: Any, z: Any) -> Any:
            if not self._held(z):
                return original(builder, x, y, z)
            return self._narrow(original(builder, *(self._wide(value) for value in (x, y, z))), z.dtype)

        return create_fma

    # --------------------------------------------------------------- conversions
    def _convert(self, source: Any, type_: Any, toward_zero: bool) -> Any:
        to = type_.scalar
        kind = self._interpreter._get_np_dtype(to)
        numbers = widened(source.data, source.dtype.scalar.name)
        if to.is_floating():
            data = narrowed(numbers, to.name, kind, toward_zero)
        elif numbers.dtype.kind == "f" and kind.kind in "iu":
            data = to_integers(numbers, kind)
        else:
            data = numbers.astype(kind)
        return self._handle(data, to)

    def _cast_impl(self, original: Function) -> Function:
        def cast_impl(builder: Any, source: Any, type_: Any) -> Any:
            return self._convert(source, type_, toward_zero=False)

        return cast_impl

    def _create_fp_to_fp(self, original: Function) -> Function:
        toward_zero = self._interpreter._ir.ROUNDING_MODE.RTZ

        def create_fp_to_fp(builder: Any, source: Any, type_: Any, rounding: Any) -> Any:
            return self._convert(source, type_, toward_zero=rounding == toward_zero)

        return create_fp_to_fp

    # ------------------------------------------------------------------- blocks
    def _create_dot(self, original: Function) -> Function:
        tensor_cores = self._interpreter._ir.INPUT_PRECISION.TF32

        def create_dot(builder: Any, a: Any, b: Any, d: Any, precision: Any, most_imprecise: Any) -> Any:
            left, right = (widened(handle.data, handle.dtype.scalar.name) for handle in (a, b))
            kind = self._interpreter._get_np_dtype(d.dtype.scalar)
            if left.dtype == np.float32 and a.dtype.scalar.name == "fp32" and self.architecture >= _WITH_TF32:
                left, right = (tf32(left), tf32(right)) if precision == tensor_cores else (left, right)
            wide = np.float32 if kind == np.float16 else kind
            product = np.matmul(left.astype(wide), right.astype(wide))
            return self._handle((product + d.data).astype(kind), d.dtype.scalar)

        return create_dot

    def _apply(self, original: Function) -> Function:
        """Reductions and scans."""
        tl = self._interpreter.tl

        def wide(value: Any) -> Any:
            if value.dtype.name != BFLOAT16:
                return value
            type_ = tl.block_type(tl.float32, list(value.shape)) if value.shape else tl.float32
            return tl.core.tensor(self._wide(value.handle), type_)

        def apply(reduction: Any, values: Any) -> Any:
            several = isinstance(values, tuple)
            given = values if several else (values,)
            if not all(isinstance(v, tl.core.tensor) for v in given) or all(v.dtype.name != BFLOAT16 for v in given):
                return original(reduction, values)
            made = original(reduction, tuple(wide(value) for value in given))
            narrow = tuple(
                reduction.to_tensor(self._narrow(one.handle, was.dtype).data, was.dtype)
                if was.dtype.name == BFLOAT16 and one.dtype == tl.float32
                else one
                for one, was in itertools.zip_longest(made, given, fillvalue=given[0])
            )
            return narrow if several else narrow[0]

        return apply

    # ------------------------------------------------------------------ the rest
    def _create_atomic_rmw(self, original: Function) -> Function:
        """One by one for bfloat16: several elements may be the same one."""
        add = self._interpreter._ir.ATOMIC_OP.FADD

        def create_atomic_rmw(
            builder: Any, operation: Any, pointers: Any, values: Any, mask: Any, order: Any, scope: Any
        ) -> Any:
            if not self._held(values) or operation != add:
                return original(builder, operation, pointers, values, mask, order, scope)
            shape = pointers.data.shape
            before = np.zeros(shape, dtype=np.uint16)
            added = np.broadcast_to(values.data, shape)
            on = np.broadcast_to(mask.data, shape)
            memory = self._interpreter._interpreter
            for at in np.ndindex(shape):
                if on[at]:
                    one, here = np.array([True]), np.array([pointers.data[at]], dtype=np.uint64)
                    was = memory.load(here, one, np.zeros(1, dtype=np.uint16), np.dtype(np.uint16))
                    total = widened(was, BFLOAT16) + widened(added[at].reshape(1), BFLOAT16)
                    memory.store(here, narrowed(total, BFLOAT16, None), one)
                    before[at] = was[0]
            return self._handle(before, values.dtype.scalar)

        return create_atomic_rmw

    def _create_print(self, original: Function) -> Function:
        """A line for each element, in the form in which the GPU writes them; there each thread writes its own."""

        def create_print(builder: Any, prefix: str, in_hex: bool, values: Any, *signed: Any) -> None:
            place = ", ".join(str(index) for index in builder.grid_idx)
            for number, handle in enumerate(values):
                data = widened(handle.data, handle.dtype.scalar.name)
                operand = f"(operand {number}) " if len(values) > 1 else ""
                scalar = data.shape == (1,)
                widths = [] if scalar else [len(str(size - 1)) for size in data.shape]
                for at in np.ndindex(data.shape):
                    index = ", ".join(f"{one:{width}}" for one, width in zip(at, widths, strict=False))
                    shown = _written(data[at], in_hex)
                    sys.stdout.write(f"pid ({place}) idx ({index}){prefix}{operand}{shown}\n")
            if not values:
                sys.stdout.write(f"pid ({place}){prefix}\n")

        return create_print


def _written(value: Any, in_hex: bool) -> str:
    if in_hex and value.dtype.kind == "f":
        return float(value).hex()
    if in_hex:
        return f"0x{int(value) & ((1 << value.dtype.itemsize * 8) - 1):0{value.dtype.itemsize * 2}x}"
    return f"{value:f}" if value.dtype.kind == "f" else str(int(value))


_METHODS = (
    "binary_op ternary_op unary_op create_fma cast_impl create_fp_to_fp create_dot create_atomic_rmw create_print"
).split()
