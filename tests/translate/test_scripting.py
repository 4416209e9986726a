"""Modules of torch import, and TorchScript compiles what it compiles under stock torch."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings

import torch
from harness import CPU, EVERYWHERE, MPS, STOCK, VIRTUAL, child
from torch.jit._builtins import _find_builtin
from torch.nn.utils.rnn import pack_padded_sequence

#: Modules whose functions programs script, or functions of theirs call.
SCRIPTED = (
    "torch",
    "torch.fft",
    "torch.functional",
    "torch.linalg",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.utils",
    "torch.nn.utils.rnn",
    "torch.optim.optimizer",
    "torch.special",
)


def _import_below(path: list[str], prefix: str, found: dict[str, str]) -> None:
    for module in pkgutil.iter_modules(path, prefix):
        if module.name.rpartition(".")[2].startswith("_") or module.name == "torch.testing":
            continue
        try:
            imported = importlib.import_module(module.name)
        except Exception as error:
            found[module.name] = type(error).__name__
            continue
        found[module.name] = "imported"
        if module.ispkg and hasattr(imported, "__path__"):
            _import_below(imported.__path__, f"{module.name}.", found)


@child(CPU.rarely(), VIRTUAL, MPS.rarely(), as_in=STOCK)
def test_every_module_of_torch_imports() -> dict[str, str]:
    """Some script functions of torch while they are imported: ``torch.distributed.optim`` does."""
    found: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _import_below(list(torch.__path__), "torch.", found)
    return found


def _compiles(function: object) -> bool:
    try:
        torch.jit.script(function)
    except Exception:
        return False
    return True


@child(*EVERYWHERE, as_in=STOCK)
def test_every_function_that_compiles() -> dict[str, str | bool]:
    found: dict[str, str | bool] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in SCRIPTED:
            functions = inspect.getmembers(importlib.import_module(name), inspect.isroutine)
            for attribute, function in functions:
                if not attribute.startswith("_"):
                    found[f"{name}.{attribute}"] = _find_builtin(function) or _compiles(function)
    return found


def _making(x: torch.Tensor) -> torch.Tensor:
    made = torch.zeros(3, device=x.device) + torch.arange(3, device=x.device) + torch.ones_like(x) + x.new_ones(3)
    moved = made.to(x.device).to(x).float() + torch.tensor([1.0, 2.0, 3.0], device=x.device)
    return moved.sum() + torch.norm(moved) + moved.sort()[0].cumsum(0).mean()


@child(*EVERYWHERE, as_in=STOCK)
def test_factories_and_moves_in_scripted_code() -> float:
    return round(torch.jit.script(_making)(torch.ones(3)).item(), 4)


@child(*EVERYWHERE, as_in=STOCK)
def test_packing_sequences_in_scripted_code() -> list[int]:
    lengths = torch._C._VariableFunctions.tensor([3, 1])  # in scripted code what is on the CPU has to be
    packed = torch.jit.script(pack_padded_sequence)(torch.ones(2, 3, 4), lengths, True)
    return packed.batch_sizes.tolist()
