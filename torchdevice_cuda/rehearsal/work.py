"""The cost of a call, without any GPU."""

from __future__ import annotations

import dataclasses

from .calls import Call, Shape


@dataclasses.dataclass(frozen=True)
class Product:
    """A product of matrices: `batch` times m x k by k x n."""

    m: int
    n: int
    k: int
    type: str
    batch: int = 1

    @property
    def flops(self) -> float:
        """Return the operations."""
        return 2.0 * self.batch * self.m * self.n * self.k


@dataclasses.dataclass(frozen=True)
class Work:
    """What a call moves and computes."""

    key: str  # of the coefficients
    bytes: float  # read and written
    footprint: float  # of distinct memory
    elements: float = 0  # on which arithmetic is done
    row: int = 1  # elements that one block of threads handles in turn
    product: Product | None = None
    blocks: float = 0.0  # of threads; 0: one for each row
    #: Its kernels move, and then compute; others do both at a time.
    is_chain: bool = False
    #: How often this is done, one after the other.
    repeats: int = 1
    kernels: int = 1  # for each of which a call launches as many as recordings tell


def read_shape(call: Call, index: int) -> Shape:
    """Return the tensor at a position of the arguments."""
    shape = call.arguments[index]
    assert isinstance(shape, Shape), call
    return shape
