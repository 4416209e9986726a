"""Run the programs named on the command line in this process, and print what each reports or how it failed."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def _on_the_host() -> None:
    """On stock torch without CUDA, what a program sends to CUDA stays where it is."""
    import torch

    torch.Tensor.cuda = lambda self, *args, **kwargs: self
    torch.nn.Module.cuda = lambda self, *args, **kwargs: self


def main(names: list[str]) -> None:
    """Import each program and call its ``main``."""
    import torch

    if not torch.cuda.is_available():
        _on_the_host()
    for name in names:
        try:
            given = {"result": importlib.import_module(name).main()}
        except Exception:
            given = {"error": traceback.format_exc()}
        print("RESULT " + json.dumps({"program": name, **given}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
