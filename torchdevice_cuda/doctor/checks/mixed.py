"""CPU tensors among GPU tensors: CUDA refuses them, the Apple GPU does not check, and may end the process."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import torch

from ..asking import Finding, Wrong, add, expect, main

_CUDAS = "Expected all tensors to be on the same device"
#: The message of operators that check devices themselves, on the Apple GPU and mostly on CUDA.
_OPERATORS = (_CUDAS, "on the same device", "should be the same", "is on cpu but expected on")
#: The Apple GPU's own message, which programs see before Python 3.12.
_METALS = ("Passed CPU tensor to MPS op", "Placeholder storage has not been allocated on MPS device!")


def _gpu(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, device="cuda")


def _matrix() -> torch.Tensor:
    return torch.eye(3, device="cuda") * 2


#: Calls that torchdevice_cuda refuses on every Python, with CUDA's message, before they reach the GPU.
GUARDED: dict[str, Callable[[], object]] = {
    "solve_triangular": lambda: torch.linalg.solve_triangular(_matrix(), torch.ones(3, 2), upper=True),
    "lu_solve": lambda: torch.linalg.lu_solve(*torch.linalg.lu_factor(_matrix()), torch.ones(3, 2)),
    "lu_solve, the matrix": lambda: torch.linalg.lu_solve(
        torch.eye(3), torch.arange(1, 4, dtype=torch.int32, device="cuda"), _gpu(3, 2)
    ),
    "ormqr": lambda: torch.ormqr(_gpu(3, 3), _gpu(3), torch.ones(3, 3)),
    "scatter_reduce": lambda: _gpu(3).scatter_reduce(0, torch.tensor([0, 1]), _gpu(2), "sum"),
}
#: Calls that only the GPU's backend itself checks.
OTHERS: dict[str, Callable[[], object]] = {
    "add": lambda: _gpu(2, 2) + torch.ones(2, 2),
    "matmul": lambda: _gpu(2, 2) @ torch.ones(2, 2),
    "linear": lambda: torch.nn.functional.linear(_gpu(2, 2), torch.ones(2, 2)),
    "cat": lambda: torch.cat([_gpu(2), torch.ones(2)]),
    "where": lambda: torch.where(_gpu(2) > 0, _gpu(2), torch.ones(2)),
    "conv2d": lambda: torch.nn.functional.conv2d(_gpu(1, 1, 4, 4), torch.ones(1, 1, 3, 3)),
}


def _refused(call: Callable[[], object], guarded: bool) -> Finding:
    try:
        call()
        torch.cuda.synchronize()
    except RuntimeError as error:
        said = str(error)
    else:
        raise Wrong("computed, as if the CPU's memory were the GPU's")
    if guarded:
        expect(_CUDAS in said, f"not in CUDA's words: {said}")
    seen = guarded or sys.version_info >= (3, 12)
    known = _OPERATORS if seen else (*_OPERATORS, *_METALS)
    expect(any(words in said for words in known), f"in words that nobody knows: {said}")
    expect(not seen or "mps" not in said.lower(), f"names the Apple GPU: {said}")
    return {"said": said}


for _guarded, _calls in ((True, GUARDED), (False, OTHERS)):
    for _name, _call in _calls.items():
        add(_name, functools.partial(_refused, _call, _guarded))


def _numbers_may() -> Finding:
    found = (_gpu(2) * torch.tensor(2.0)).tolist()
    expect(found == [2, 2], f"a number of the CPU's times ones of the GPU's: {found}")
    return None


add("numbers may be anywhere", _numbers_may)

if __name__ == "__main__":
    main()
