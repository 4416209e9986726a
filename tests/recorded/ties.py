"""The choice among equal elements: indices of topk, sort, mode and others.

A case's name has the function, the elements' type, how many there are and how many kinds of them, what else is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

RECORD = "ties-h200.json.xz"
COUNTS = (4, 7, 16, 31, 32, 33, 60, 100, 129, 300, 1024, 1500, 2049, 5000)
FEW = (7, 32, 33, 300, 1500, 5000)
DTYPES = {"float32": COUNTS, "float16": FEW, "int64": COUNTS, "uint8": FEW}
#: More elements than these were not recorded.
MOST = {"sort": 300, "cummax": 60, "cummin": 60}
FUNCTIONS = ("topk", "sort", "mode", "kthvalue", "max", "min", "cummax", "cummin")


def make_tensor(dtype: str, count: int, kinds: int) -> torch.Tensor:
    return (torch.arange(count) * 7919 % 104729 % kinds).to(getattr(torch, dtype)).cuda()


def list_arguments(function: str, dtype: str, count: int) -> Iterator[str]:
    """List what else a function is given, as the names of cases have it."""
    if function == "topk":
        largest = (1, 3, 20, 33, *((min(count, 140),) if count <= 300 else ()))
        for k in sorted({k for k in largest if k <= count}):
            for flag in ("True", "False"):
                yield f"{k} {flag} True"
                if dtype == "float32":
                    yield f"{k} {flag} False"
    elif function == "sort":
        yield from ("True", "False")
    elif function == "kthvalue":
        yield from map(str, (1, count // 2, count))
    else:
        yield ""


def find_indices(name: str) -> list[int]:
    """Run a case by its name."""
    function, dtype, count, kinds, *given = name.split()
    x = make_tensor(dtype, int(count), int(kinds))
    if function == "topk":
        found = torch.topk(x, int(given[0]), 0, *(word == "True" for word in given[1:])).indices
    elif function == "sort":
        found = torch.sort(x, 0, given[0] == "True").indices
    else:
        found = getattr(torch, function)(x, *(int(word) for word in given), 0).indices
    return list(found.flatten().tolist())


def list_cases() -> dict[str, Callable[[], list[int]]]:
    names = [
        f"{function} {dtype} {count} {kinds} {given}".strip()
        for dtype, counts in DTYPES.items()
        for function in FUNCTIONS
        for count in counts
        if count <= MOST.get(function, count)
        for kinds in (2, 5)
        for given in list_arguments(function, dtype, count)
    ]
    names += [f"topk float32 200000 50 {k} True {is_sorted}" for k in (5, 40) for is_sorted in ("True", "False")]
    return {name: partial(find_indices, name) for name in names}
