"""What Fourier transforms cost: kernels that each read and write everything, by the factors of the lengths."""

from __future__ import annotations

import functools

from .calls import Call
from .work import Work, read_shape

#: The longest transform of one kernel, and the largest prime for which there are kernels.
_WHOLE, _PRIME = 8192, 127
#: The longest transforms from and to real elements without a kernel that separates pairs of them.
_WHOLE_REAL, _WHOLE_PAIRS = 16384, 200
#: A prime of 2 costs this, since kernels take several at a time; others cost their own value.
_TWO = 1.0
#: How much slower the conjugate half is copied than a kernel reads and writes it.
_CONJUGATE = 2.5


@functools.cache
def _factor(length: int) -> tuple[int, ...]:
    """Return the prime factors of a length."""
    found, prime = [], 2
    while prime * prime <= length:
        while length % prime == 0:
            found.append(prime)
            length //= prime
        prime += 1
    return (*found, *([length] if length > 1 else []))


def _plan(length: int) -> tuple[int, float, float]:
    """Return the kernels of a transform of a length, their reads and writes, and the operations of an element."""
    factors = _factor(length)
    if factors and factors[-1] > _PRIME:
        # A convolution of at least twice the length, by two transforms.
        longer = 1 << (2 * length - 1).bit_length()
        kernels, passes, operations = _plan(longer)
        share = longer / length
        return 2 * kernels, 2 * passes * share, 2 * operations * share
    operations = sum(_TWO if prime == 2 else float(prime) for prime in factors)
    kernels = 1 if length <= _WHOLE else 2 if length <= _WHOLE * _WHOLE else 3
    return kernels, float(kernels), operations


def transforms(call: Call) -> Work:
    """Return the cost of a Fourier transform over some dimensions, of which the last one's result may be real."""
    shape = read_shape(call, 0)
    dims = call.get(1, (-1,))
    lengths = [shape.sizes[dim] for dim in dims]
    is_real = call.name != "_fft_c2c"
    if call.name == "_fft_c2r":
        lengths[-1] = call.get(3, lengths[-1])
    kernels, passes, operations = 0, 0.0, 0.0
    for i, length in enumerate(lengths):
        # Pairs of real elements are transformed as complex ones, and separated.
        is_halved = is_real and i == len(lengths) - 1 and length % 2 == 0
        more = _plan(length // 2 if is_halved else length)
        is_separate = is_halved and length > (_WHOLE_REAL if call.name == "_fft_r2c" else _WHOLE_PAIRS)
        kernels += more[0] + is_separate
        passes += more[1] + is_separate
        operations += more[2]
    complex_elements = shape.elements / 2 if call.name == "_fft_r2c" else float(shape.elements)
    if call.name == "_fft_r2c" and not call.get(3, True):
        kernels, passes = kernels + 1, passes + _CONJUGATE
    if call.name == "_fft_c2r":  # which overwrites its input
        kernels, passes = kernels + 1, passes + 1
    if call.get(2, 0):  # normalized
        kernels, passes = kernels + 1, passes + 1
    once = 16.0 * complex_elements if shape.item_bytes in (4, 8) else 32.0 * complex_elements
    elements = complex_elements * operations
    return Work(call.name, passes * once / kernels, once, elements / kernels, repeats=kernels)
