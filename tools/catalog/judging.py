"""The verdict on a callable on a driver, from its calls there, on stock torch and on a real GPU."""

from __future__ import annotations

import json
import re
from typing import Any

import measuring
from comparing import places, same

Row = dict[str, Any]
WORKS, FELL_BACK, REFUSED, DIFFERS, NOT_RUN = "works", "works by fallback", "refused like CUDA", "differs", "not run"
#: What a driver's call was compared with.
WITH = GPU, STOCK = "the GPU", "stock on the CPU"
#: In a record, instead of what the CPU came to.
SAME = "same"
#: A driver whose tensors say cpu, and one whose GPU is not CUDA's: it may do as the CPU does where CUDA does otherwise.
SAYS_CPU, OTHER_GPU = {"cpu"}, {"mps", "mps --float64 cpu", "cpu"}


#: Results that are not defined: memory that nothing was written to. And vectors whose signs are not.
UNDEFINED = re.compile(
    r"empty|resize|mkldnn_rnn_layer$|\.set_$|\.ao\.nn\.quantized\.(Conv\dd|Embedding(Bag)?)(\.weight)?$"
)
SIGNLESS = re.compile(r"eig|svd|lobpcg|pca|qr$|geqrf|ormqr")
#: What says figures of a device: how much memory, which name, how fast. They are those of the GPU that a driver is.
#: And whether something that was begun is over by now, and where in memory something lies.
FIGURES = re.compile(
    r"^torch\.(cuda|accelerator|backends)\.|trace_id$|\.data_ptr$|benchmark\.timer$|Work\.is_completed$"
)
#: What lists something that is kept without an order.
UNORDERED = re.compile(r"get_safe_globals$|ConcreteModuleType\.get_constants$")


def how(name: str) -> dict[str, bool]:
    """Choose how a callable's results are compared."""
    return {
        "written": not UNDEFINED.search(name),
        "signs": not SIGNLESS.search(name),
        "kinds": bool(FIGURES.search(name)),
        "ordered": not UNORDERED.search(name),
    }


def short(row: Row) -> str:
    return row["error"] if "error" in row else json.dumps(row["result"])[:110]


def spoilt(row: Row) -> bool:
    """Return whether a call says nothing of the callable: its process ended, or was in disorder before."""
    error = row.get("error", "")
    return "Crash" in error or bool(measuring.LEFT_BEHIND.search(error))


def reference(name: str, key: str | None, stock: Row, gpu: dict[str, Any]) -> Row | None:
    """Return a real GPU's result of the call, if it is known."""
    row = gpu["answers"].get(name)
    if row is None or key is None or row["cuda"]["call"] != key or spoilt(row["cuda"]):
        return None
    then = row["cuda"] if row.get("cpu") == SAME else row.get("cpu")
    # Where stock itself has changed since, the GPU's answer is of another release.
    if then and stock.get("call") == key and not spoilt(stock) and not same(then, stock, **how(name)):
        return None
    return dict(row["cuda"])


def status(name: str, driver: str, stock: Row, told: Row | None, gpu: dict[str, Any]) -> dict[str, str]:
    """Return the status of a callable on a driver, what it was compared with, and what there is to say about it."""
    if why := measuring.left_out(name):
        return {"status": NOT_RUN, "why": why}
    if told is None:
        return {"status": NOT_RUN, "why": "it was not tried"}
    if "none" in told:
        return {"status": NOT_RUN, "why": f"no arguments were found that it takes: {told['none']}"}
    if told.get("error", "").startswith("ModuleNotFoundError"):
        return {"status": NOT_RUN, "why": f"it needs a package that is not installed: {told['error']}"}
    there = reference(name, told["call"], stock, gpu)
    known = stock if stock.get("call") == told["call"] and stock.get("call") and not spoilt(stock) else None
    if there is None and known is None:
        # It is of CUDA alone, and the record of the GPU does not have it.
        return {"status": NOT_RUN, "why": f"there is nothing to compare it with: here {short(told)}"}
    against = [row for row in ([there] if there and driver not in OTHER_GPU else [there, known]) if row]
    by = {"with": GPU if there else STOCK}
    match = next((row for row in against if same(row, told, **how(name))), None)
    if match is None:
        return {"status": DIFFERS, **by, "why": f"{by['with']}: {short(against[0])} here: {short(told)}"}
    if there and "error" not in told and driver not in SAYS_CPU and match is there:
        wanted = places(there["result"])
        if places(told["result"]) != wanted:
            return {"status": DIFFERS, **by, "why": f"tensors are on {places(told['result'])}, not on {wanted}"}
    if "error" in told and there and not (known and same(known, told, **how(name))):
        return {"status": REFUSED, **by, "why": told["error"]}
    if told.get("left"):
        return {"status": FELL_BACK, **by, "why": ", ".join(told["left"])}
    note = {"why": f"raises there, too: {told['error']}"} if "error" in told else {}
    loosely = told.get("drawn") or match.get("drawn") or not how(name)["written"]
    drawn = {"why": "by dtype, shape and range"} if loosely else {"why": "by kind"} if how(name)["kinds"] else {}
    return {"status": WORKS, **by, **drawn, **note}
