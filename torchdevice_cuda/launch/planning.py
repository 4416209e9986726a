"""``python -m torchdevice_cuda plan``: its options, and the table at the end of the program."""

from __future__ import annotations

import atexit
import dataclasses
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from .. import _compat
from ..settings import gpus, variables

NAME = "plan"
#: More than any GPU has, so that the program itself does not run out of memory.
_MEMORY = "8TiB"


class PlanError(Exception):
    """An option of the plan cannot be read."""


@dataclasses.dataclass
class Plan:
    """The options of a plan."""

    gpus: str = ""
    prices: str = ""
    html: str = ""


#: The options: what follows each, and the meaning.
FLAGS = {
    "--gpus": ("names such as a100-80,h200, or all", "GPUs to plan for; 12 usual ones without it"),
    "--prices": ("a TOML file of prices for an hour, such as h200 = 3.5", "adds the cost of 1,000 steps"),
    "--html": ("a path that can be written", "also writes the plan as a page"),
}


def read_options(rest: list[str]) -> Plan:
    """Take the plan's options from the beginning of these words."""
    plan = Plan()
    while rest and rest[0].partition("=")[0] in FLAGS:
        flag, attached, value = rest.pop(0).partition("=")
        if not attached:
            if not rest:
                raise PlanError(f"{flag} needs a value; allowed: {FLAGS[flag][0]}")
            value = rest.pop(0)
        setattr(plan, flag[2:], os.path.abspath(value) if flag != "--gpus" else value)
    return plan


def override(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a plan's rehearsal."""
    return {"driver": "virtual", "gpu": "h200", "memory": _MEMORY, "rehearse": "on", **overrides}


def _read_prices(path: str) -> dict[str, float]:
    try:
        read = _compat.read_toml(Path(path))
    except (OSError, ValueError) as error:
        raise PlanError(f"--prices={path!r} cannot be read ({error}); allowed: {FLAGS['--prices'][0]}") from None
    prices = {}
    for name, price in read.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:
            raise PlanError(f"{path}: the price {name} = {price!r} is not a number of at least 0")
        prices[_read_gpu(name, path)] = float(price)
    return prices


def _read_gpu(name: str, where: str) -> str:
    try:
        return gpus.read(name)
    except variables.ValueHint as error:
        hint = f"; {error}" if str(error) else ""
        raise PlanError(f"{where}: there is no GPU {name!r}{hint}; see python -m torchdevice_cuda --gpu list") from None


def _check_page(path: str) -> None:
    """Raise if a page cannot be written, before the program runs."""
    try:
        with open(path, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise PlanError(
            f"--html={path!r} cannot be written ({error.strerror}); allowed: {FLAGS['--html'][0]}"
        ) from None


def _list_gpus(plan: Plan, prices: Mapping[str, float]) -> list[str]:
    from ..rehearsal.plan import USUAL

    if plan.gpus == "all":
        return list(gpus.names())
    chosen = [_read_gpu(name.strip(), "--gpus") for name in plan.gpus.split(",")] if plan.gpus else [*USUAL, *prices]
    return list(dict.fromkeys(chosen))


def start(plan: Plan) -> None:
    """Record the program from now on, and print the table when the process ends; imports torch."""
    from .. import activation

    if activation.current_settings().world is not None:
        raise PlanError(
            "a plan is for one GPU; for many, rehearse on each: --gpu h200 --rehearse --world 8 (a plan adds calls up, "
            "and collectives overlap with them)"
        )
    prices = _read_prices(plan.prices) if plan.prices else {}
    keys = _list_gpus(plan, prices)
    if plan.html:
        _check_page(plan.html)
    import torch  # noqa: F401 (its import activates)

    from ..rehearsal.plan import make_rows
    from ..rehearsal.plan_page import write_html, write_text
    from ..rehearsal.steps import Recorder

    native = activation.driver().native
    if native is None:
        raise PlanError("a plan needs a GPU to rehearse on, and CUDA_VISIBLE_DEVICES hides all")
    recorder = Recorder(native, gpus.find("h200"))
    recorder.start()

    def finish() -> None:
        recorder.finish()
        if not recorder.calls and not recorder.memory.reserved:
            print("No plan: the program used no GPU", flush=True)
            return
        rows = make_rows(recorder, keys, prices)
        has_failed = hasattr(sys, "last_type")  # an error ended the program
        print(write_text(recorder, rows, has_failed), flush=True)
        if plan.html:
            Path(plan.html).write_text(write_html(recorder, rows, has_failed), "utf-8")

    atexit.register(finish)
