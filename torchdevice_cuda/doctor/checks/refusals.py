"""Call each row of the table of refusals on the GPU without patches, and compare the message with the table."""

from __future__ import annotations

import collections
import functools
import re
from typing import Any

import torch

from ...fallback.refusals import TABLE, refusal
from .. import bare
from ..asking import Finding, NotHereError, Wrong, add, main
from ..probes import PROBES, Probe

_NEAR = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
_NEAR_ELSE = 2e-3
_WIDER = {torch.complex32: torch.complex64}


def _here(value: torch.Tensor) -> torch.Tensor:
    return value


def _there(value: torch.Tensor) -> torch.Tensor:
    return value.to(bare.bring_up())


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _row(error: Exception) -> str:
    return next(row.words.pattern for row in TABLE if isinstance(error, row.type) and row.words.search(str(error)))


def _ask(probe: Probe) -> dict[str, Any]:
    """Make one call and return its outcome; raise if it is wrong, or if its message is unknown."""
    try:
        known = probe.call(_here)
    except (RuntimeError, TypeError) as error:
        known, refused = None, _said(error)
    else:
        refused = ""
    try:
        found = probe.call(_there)
        _settle(found)
    except (RuntimeError, TypeError) as error:
        kind = refusal(error)
        if kind is None and not refused:
            raise Wrong(f"the GPU refuses in words that the table does not know: {_said(error)}") from error
        return {"outcome": "refused" if kind else "refused everywhere", "kind": kind, "said": _said(error),
                "row": _row(error) if kind else None}  # fmt: skip
    if refused:
        return {"outcome": "computed, unlike on the CPU", "said": refused}
    if tuple(found.shape) != tuple(known.shape) or found.dtype is not known.dtype:
        raise Wrong(f"{found.dtype} {tuple(found.shape)}, not {known.dtype} {tuple(known.shape)}")
    apart = 0.0 if probe.drawn else _distance(found, known)
    if not apart <= _NEAR.get(known.dtype, _NEAR_ELSE):
        raise Wrong(f"computed wrongly: {apart:.2e} from what the CPU computes")
    return {"outcome": "computed", "apart": apart}


def _settle(found: Any) -> None:
    """Wait for a result: errors of the GPU may be raised when it is read."""
    torch.mps.synchronize()
    found.cpu() if isinstance(found, torch.Tensor) else None


def _distance(found: torch.Tensor, known: torch.Tensor) -> float:
    """Return the distance relative to the largest expected value."""
    if known.layout is not torch.strided:
        found, known = found.to_dense(), known.to_dense()
    one, other = (value.detach().cpu().to(_WIDER.get(value.dtype, value.dtype)) for value in (found, known))
    wide = torch.complex128 if other.is_complex() else torch.float64
    distance = (one.to(wide) - other.to(wide)).abs()
    return float(distance.max() / other.to(wide).abs().max().clamp_min(1)) if distance.numel() else 0.0


_outcomes: collections.Counter[str] = collections.Counter()


def _asked(probe: Probe) -> Finding:
    found = _ask(probe)
    _outcomes[found["outcome"]] += 1
    return found


def _in_all() -> Finding:
    return ", ".join(f"{count} {outcome}" for outcome, count in _outcomes.most_common())


def _not_asked(why: str) -> Finding:
    raise NotHereError(why)


# By the calls, not by the table: a missing row shows as an unknown message.
for _words in dict.fromkeys([*PROBES, *(row.words.pattern for row in TABLE)]):
    _name = re.sub(r"\\(?!w|d|b)", "", _words).strip()
    _probes = PROBES.get(_words, "nobody has thought of a call")
    if isinstance(_probes, str):
        add(_name, functools.partial(_not_asked, _probes))
    else:
        for _number, _probe in enumerate(_probes, start=1):
            add(f"{_name} ({_number})" if len(_probes) > 1 else _name, functools.partial(_asked, _probe))

add("in all", _in_all)

if __name__ == "__main__":
    main()
