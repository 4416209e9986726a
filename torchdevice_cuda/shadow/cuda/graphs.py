"""CUDA graphs: work captured once and replayed many times.

The driver records. A capture that cannot start leaves the current stream and device unchanged.
"""

from typing import TYPE_CHECKING

from torchdevice_cuda.shadow import stock

stock.execute(globals())

if TYPE_CHECKING:
    from torch.cuda.graphs import graph

_stock_enter = graph.__enter__


def _enter(self: "graph") -> None:
    """Start the capture of the block; if that fails, restore the caller's stream.

    Python calls no ``__exit__`` after a failed ``__enter__``, and stock's leaves the capture's stream current.
    """
    try:
        _stock_enter(self)
    except BaseException:
        self.stream_ctx.__exit__(None, None, None)
        raise


graph.__enter__ = _enter  # type: ignore[method-assign]
