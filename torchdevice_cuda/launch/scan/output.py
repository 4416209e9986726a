"""The findings of a scan as text, lines, JSON, SARIF or a page."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..._version import __version__
from ...report import source
from ...report.document import Site
from .finding import Use
from .rules import DIFFERS, FALLBACK, UNSUPPORTED, VERDICTS, WORKS

_LEVELS = dict(zip(VERDICTS, ("error", "warning", "note", "none"), strict=True))
#: Lines of the text for each verdict; it fits ten lines in all.
_MOST = {UNSUPPORTED: 4, DIFFERS: 2, FALLBACK: 1}
#: How the text calls each verdict.
TITLES = {UNSUPPORTED: "Cannot work", DIFFERS: "Differs", FALLBACK: "Leaves the GPU"}
#: The same of several uses.
_PLURALS = {UNSUPPORTED: "cannot work", DIFFERS: "differ", FALLBACK: "leave the GPU", WORKS: "work"}


class Result(NamedTuple):
    """The findings of a scan."""

    driver: str
    found: list[tuple[str, Use]]
    unread: list[tuple[str, str]]  # files, and the reasons
    kernels: list[str]  # sources of CUDA C++, which are not read
    files: int
    seconds: float


class Group(NamedTuple):
    """Findings of one rule and one verdict."""

    verdict: str
    rule: str
    advice: str
    uses: Sequence[tuple[str, Use]]

    def describe(self) -> str:
        """Return the first finding, the number of the others, and the advice, on one line."""
        file, use = self.uses[0]
        others = len(self.uses) - 1
        files = len({file for file, _ in self.uses})
        more = f" (and {others:,} more, {files} {'file' if files == 1 else 'files'} in all)" if others else ""
        return f"{file}:{use.line}: {use.what}{more}: {self.advice}"


def groups(result: Result) -> list[Group]:
    """Join findings that do not work like CUDA by rule, the worst verdict first, then the most frequent."""
    found: dict[tuple[str, str, str], list[tuple[str, Use]]] = {}
    for file, use in result.found:
        if use.verdict.what != WORKS:
            found.setdefault((use.verdict.what, use.rule, use.verdict.advice), []).append((file, use))
    joined = [Group(*key, uses) for key, uses in found.items()]
    return sorted(joined, key=lambda group: (VERDICTS.index(group.verdict), -len(group.uses)))


def count(result: Result) -> dict[str, int]:
    """Return the number of findings with each verdict."""
    counted = collections.Counter(use.verdict.what for _, use in result.found)
    return {what: counted[what] for what in VERDICTS}


def describe_kernels(result: Result) -> str:
    """Return the number of sources of CUDA C++, and what to do with them."""
    number = len(result.kernels)
    sources = f"1 source of CUDA C++ ({result.kernels[0]})" if number == 1 else f"{number:,} sources of CUDA C++"
    return f"{sources}: build {'it' if number == 1 else 'them'} here and run the tests (docs/kernels.md)"


def _text(result: Result) -> str:
    """Return what cannot work, then what differs, then one line for the rest."""
    lines = []
    every = groups(result)
    for verdict, most in _MOST.items():
        these = [group for group in every if group.verdict == verdict]
        lines += [f"{TITLES[verdict]}: {group.describe()}" for group in these[:most]]
        rest = sum(len(group.uses) for group in these[most:])
        if rest:
            kinds = len(these) - most
            lines.append(f"{TITLES[verdict]}: {rest:,} more, of {kinds} other {'kind' if kinds == 1 else 'kinds'}")
    unread = []
    if result.unread:
        file, why = result.unread[0]
        others = f" (and {len(result.unread) - 1} more)" if len(result.unread) > 1 else ""
        unread.append(f"{file}{others}: {why}")
    if result.kernels:
        unread.append(describe_kernels(result))
    if unread:
        lines.append(f"Not read: {'; '.join(unread)}")
    works = count(result)[WORKS]
    files = f"{result.files:,} {'file' if result.files == 1 else 'files'} ({result.seconds:.1f} s)"
    if result.found:
        which = "all" if works == len(result.found) else "the other"
        uses = f"{which} {works:,} {'use' if works == 1 else 'uses'} of CUDA in {files}"
        more = "--format lines lists each finding, --html shows them."
        lines.append(f"Works on the {result.driver} driver: {uses}. {more}")
    else:
        lines.append(f"No use of CUDA was found in {files}.")
    return "".join(f"{line}\n" for line in lines)


def _lines(result: Result) -> str:
    """Return one line for each finding, as compilers print them."""
    lines = []
    for file, use in result.found:
        if use.verdict.what != WORKS:
            advice = f": {use.verdict.advice}" if use.verdict.advice else ""
            lines.append(f"{file}:{use.line}:{use.column + 1}: {use.verdict.what}: {use.what}{advice}")
    lines += [f"{file}: not read: {why}" for file, why in result.unread]
    if result.kernels:
        lines.append(f"not read: {describe_kernels(result)}")
    counts = ", ".join(f"{number} {what}" for what, number in count(result).items())
    lines.append(
        f"{len(result.found)} uses of CUDA in {result.files} files on the {result.driver} driver: {counts} "
        f"({result.seconds:.1f} s)"
    )
    return "".join(f"{line}\n" for line in lines)


def _html(result: Result) -> str:
    """Return a page without other files. All text of the project is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def describe(file: str, use: Use) -> dict[str, str]:
        site = Site(file, use.line)
        return {
            "where": f"{file}:{use.line}",
            "link": source.link(site),
            "text": source.text_of(site),
            "what": use.what,
        }

    shown = [{"group": group, "uses": [describe(file, use) for file, use in group.uses]} for group in groups(result)]
    return environment.get_template("page.html.jinja").render(
        result=result,
        counts={_PLURALS[what]: number for what, number in count(result).items()},
        titles=TITLES,
        groups=shown,
        kernels=describe_kernels(result) if result.kernels else "",
    )


def _json(result: Result) -> str:
    document: dict[str, Any] = {
        "version": __version__,
        "driver": result.driver,
        "files": result.files,
        "counts": count(result),
        "uses": [
            {
                "file": file,
                "line": use.line,
                "column": use.column + 1,
                "what": use.what,
                "rule": use.rule,
                "verdict": use.verdict.what,
                "advice": use.verdict.advice,
            }
            for file, use in result.found
        ],
        "unread": [{"file": file, "why": why} for file, why in result.unread],
        "kernels": result.kernels,
    }
    return json.dumps(document, indent=1) + "\n"


def _sarif(result: Result) -> str:
    """Return SARIF for code hosts, which show it beside the lines: without uses that work."""
    shown = [(file, use) for file, use in result.found if use.verdict.what != WORKS]
    advice = {use.rule: use.verdict.advice or use.rule for _, use in shown}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "torchdevice-cuda",
                        "version": __version__,
                        "rules": [
                            {"id": rule, "shortDescription": {"text": text}} for rule, text in sorted(advice.items())
                        ],
                    }
                },
                "results": [
                    {
                        "ruleId": use.rule,
                        "level": _LEVELS[use.verdict.what],
                        "message": {"text": f"{use.what} {use.verdict.what} on {result.driver}: {use.verdict.advice}"},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": Path(file).as_posix()},
                                    "region": {"startLine": use.line, "startColumn": use.column + 1},
                                }
                            }
                        ],
                    }
                    for file, use in shown
                ],
            }
        ],
    }
    return json.dumps(document, indent=1) + "\n"


#: The functions that write each format, by its name.
FORMATS: dict[str, Callable[[Result], str]] = {
    "text": _text,
    "lines": _lines,
    "json": _json,
    "sarif": _sarif,
    "html": _html,
}
