"""Notes the operators that cases call, for ``tools/record coverage``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

#: In the environment of cases: the file in which they note operators.
NOTES = "RECORD_OPERATORS"


@contextlib.contextmanager
def note_operators() -> Iterator[None]:
    """Note the operators that are called meanwhile, by this process and its forks, where a file for it is named."""
    if NOTES not in os.environ:
        yield
        return
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    file = os.open(os.environ[NOTES], os.O_WRONLY | os.O_APPEND)
    seen: set[str] = set()

    def is_cuda(value: Any) -> bool:
        device = value.device if isinstance(value, torch.Tensor) else value
        return isinstance(device, torch.device) and device.type == "cuda"

    class Notes(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func.name()
            if name not in seen and any(map(is_cuda, tree_leaves((args, kwargs)))):
                seen.add(name)
                os.write(file, f"{name}\n".encode())
            return func(*args, **(kwargs or {}))

    try:
        with Notes():
            yield
    finally:
        os.close(file)
