"""Our own oracle: small questions to the device, in areas from the allocator to streams.

A probe (``probes/*.py``) is a function whose answer is a JSON value: ``["ok", value]``, or the type and first line of
the error that it ended with. Where the value is a list, each of its items is a fact of its own, ``amp.promotions#3``.
"""

from __future__ import annotations

import gc
import json
import pkgutil
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from record.case_sets import Case

from recorded.oracle.probing import PROBES, alike

HERE = Path(__file__).resolve().parent
RECORD = "oracle-h200.json"
EXPECTED = HERE.with_name("expected") / "oracle.toml"
#: What takes long to import and does not touch the device: forks of a process that has it need not.
HEAVY = {
    "compiling": ("torch._dynamo", "torch._functorch.aot_autograd", "torch.export"),
    "sharding": ("torch.distributed.fsdp", "torch.distributed.tensor", "torch.distributed.checkpoint"),
}
#: Tensors on the cpu driver say cpu: nothing else would be true. What is asked is all the rest.
SAYS = {"cpu": "cpu"}


def list_cases() -> dict[str, Case]:
    for module in pkgutil.iter_modules([str(HERE / "probes")]):
        import_module(f"{__name__}.probes.{module.name}")
    return PROBES


def reset() -> None:
    """Puts back what a probe may have left behind; it may be the device that is broken."""
    torch.set_default_device(None)
    steps: Iterable[Callable[[], Any]] = (
        lambda: torch.distributed.destroy_process_group() if torch.distributed.is_initialized() else None,
        gc.collect,
        lambda: torch.set_default_dtype(torch.float32),
        lambda: torch.set_grad_enabled(True),
        lambda: torch.set_autocast_enabled("cuda", False),
        lambda: torch.set_autocast_dtype("cuda", torch.float16),
        torch.clear_autocast_cache,
        lambda: torch.use_deterministic_algorithms(False),
        lambda: torch.set_float32_matmul_precision("highest"),
        lambda: torch.cuda.set_sync_debug_mode(0),
        lambda: torch.cuda.set_device(0),
        lambda: torch.cuda.set_stream(torch.cuda.default_stream()),
        lambda: torch.cuda.set_per_process_memory_fraction(1.0),
        torch.cuda.synchronize,
        torch.cuda.empty_cache,
        lambda: torch.manual_seed(20240229),
    )
    for step in steps:
        try:
            step()
        except Exception as error:
            print(f"not put back: {error}", file=sys.stderr)


def preload(names: list[str]) -> None:
    """Import what forks for these probes need."""
    for area in sorted({name.partition(".")[0] for name in names} & HEAVY.keys()):
        for module in HEAVY[area]:
            import_module(module)


def adapt(answers: dict[str, Any], driver: str) -> dict[str, Any]:
    """Return answers with the GPU's name as tensors on a driver say it."""
    return dict(json.loads(json.dumps(answers).replace("cuda:0", SAYS.get(driver, "cuda:0"))))


def split(name: str, there: list[Any], here: list[Any]) -> dict[str, tuple[Any, Any]]:
    """Return the facts of an answer: the GPU's and the driver's."""
    a, b = there[1], here[1]
    if there[0] == here[0] == "ok" and isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return {f"{name}#{i}": pair for i, pair in enumerate(zip(a, b, strict=True))}
    if there[0] == "ok" and isinstance(a, list):
        return {f"{name}#{i}": (part, here) for i, part in enumerate(a)}
    return {name: (there, here)}


def find_difference(there: Any, here: Any, case: Case) -> str | None:
    return None if alike(there, here, case.tolerance) else "differs"
