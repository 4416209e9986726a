"""Which configuration ``@triton.autotune`` takes: the first that the GPU could launch."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from .modes import only_tried

_FAILED = [math.inf] * 3
_TAKEN = [0.0] * 3


class _Search(threading.local):
    """Whether this thread's search has found one."""

    found = False


def first_valid(tuner: Any) -> dict[str, Callable[..., Any]]:
    """What the methods of ``Autotuner`` are to be."""
    search, run, bench = _Search(), tuner.run, tuner._bench

    def run_(self: Any, *args: Any, **kwargs: Any) -> Any:
        before, search.found = search.found, False
        try:
            return run(self, *args, **kwargs)
        finally:
            search.found = before

    def bench_(self: Any, *args: Any, **kwargs: Any) -> Any:
        if search.found:
            return list(_FAILED)
        measured = self.__dict__.get("do_bench", bench_)
        self.__dict__["do_bench"] = _once
        try:
            with only_tried():
                times = bench(self, *args, **kwargs)
        finally:
            if measured is bench_:
                del self.__dict__["do_bench"]
            else:
                self.__dict__["do_bench"] = measured
        search.found = not math.isinf(times[0])
        return times

    return {"run": run_, "_bench": bench_}


def _once(call: Callable[[], Any], quantiles: Any = None) -> list[float]:
    call()
    return list(_TAKEN)
