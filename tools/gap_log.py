"""The log of gaps that ``gap.py`` finds: how bad each is, what is to be done about it, and which are new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

#: Of each kind of gap how bad it is, and what is done about it.
KINDS = {
    "missing module": ("high", "a file of shadow/cuda with stock's name, or leave the name to stock"),
    "missing": ("high", "the file of shadow/cuda that replaces its module; a name of torch._C: shadow/bindings"),
    "missing member": ("medium", "the class of shadow/bindings or shadow/cuda that stands for it"),
    "kind differs": ("high", "what is a class, a function or data in stock has to be one here"),
    "signature differs": ("medium", "the parameters of the function that replaces it"),
    "__all__ differs": ("medium", "the list of the file of shadow/cuda that replaces the module"),
    "new": ("low", "none while stock's own code answers: try what it does"),
    "gone": ("low", "none while older releases have it: see whether anything of ours is for it alone"),
    "changed": ("low", "none while stock's own code answers: try what it does"),
}


class Gap(NamedTuple):
    """A gap of a release of torch."""

    what: str
    where: str

    @property
    def row(self) -> dict[str, str]:
        severity, action = KINDS[self.what]
        return {"what": self.what, "where": self.where, "severity": severity, "action": action}


def read(file: Path) -> dict[str, list[dict[str, str]]]:
    """Return the log: of each release its gaps."""
    return dict(json.loads(file.read_text())) if file.exists() else {}


def written(file: Path, release: str, found: list[Gap]) -> str:
    """Return the log with the gaps of a release in place of those it had."""
    log = {**read(file), release: [gap.row for gap in sorted(set(found))]}
    return json.dumps(dict(sorted(log.items())), indent=1) + "\n"


def regressions(file: Path, release: str, found: list[Gap]) -> list[str]:
    """List the gaps of a release that are not in the log, the worst first."""
    known = {(row["what"], row["where"]) for row in read(file).get(release, [])}
    order = ("high", "medium", "low")
    rows = sorted((gap.row for gap in set(found) - known), key=lambda row: (order.index(row["severity"]), row["where"]))
    return [f"{row['severity']}: {row['what']}: {row['where']}; {row['action']}" for row in rows]


def mended(file: Path, release: str, found: list[Gap]) -> list[str]:
    """List the gaps of a release in the log that are closed."""
    rows = read(file).get(release, [])
    return [f"{row['what']}: {row['where']}" for row in rows if (row["what"], row["where"]) not in set(found)]
