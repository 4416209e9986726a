"""Parse a command line of ``nvidia-smi``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .fields import Field, of_gpu, of_user

#: NVIDIA's exit codes.
INVALID, NOT_FOUND, UNKNOWN = 2, 6, 255
_HELP = "Please run 'nvidia-smi -h' for help."


class Refusal(Exception):
    """The command line is refused: the message, and the exit code."""

    def __init__(self, words: str, code: int = INVALID) -> None:
        super().__init__(words)
        self.code = code


@dataclasses.dataclass
class Request:
    """One command line."""

    #: table, list, excluded, details, gpu, users, dmon, pmon, help, version, help-gpu, help-users
    what: str = "table"
    ids: list[str] = dataclasses.field(default_factory=list)
    fields: list[Field] = dataclasses.field(default_factory=list)
    format: set[str] = dataclasses.field(default_factory=set)
    xml: bool = False
    sections: list[str] = dataclasses.field(default_factory=list)
    every: float | None = None  # seconds between readings
    count: int | None = None  # number of readings
    metrics: str = ""
    stamps: str = ""
    file: str | None = None


#: Options with one form, without a choice of GPUs and without repetition.
_SINGLE = ("list", "excluded")

#: Options that take a value, by each of their spellings.
_VALUED = {
    **dict.fromkeys(("-i", "--id"), "id"),
    **dict.fromkeys(("-f", "--filename"), "file"),
    **dict.fromkeys(("-d", "--display"), "sections"),
    **dict.fromkeys(("-lms", "--loop-ms"), "loop-ms"),
    "--query-gpu": "query-gpu",
    "--query-compute-apps": "query-users",
    "--query-apps": "query-users",
    "--format": "format",
}
_MONITOR_VALUED = {
    **dict.fromkeys(("-i", "--id"), "id"),
    **dict.fromkeys(("-f", "--filename"), "file"),
    **dict.fromkeys(("-d", "--delay"), "delay"),
    **dict.fromkeys(("-c", "--count"), "count"),
    **dict.fromkeys(("-s", "--select"), "metrics"),
    **dict.fromkeys(("-o", "--options"), "stamps"),
    "--format": "format",
}
_PLAIN = {
    **dict.fromkeys(("-h", "--help"), "help"),
    **dict.fromkeys(("-L", "--list-gpus"), "list"),
    **dict.fromkeys(("-q", "--query"), "details"),
    **dict.fromkeys(("-B", "--list-excluded-gpus"), "excluded"),
    "--version": "version",
    "--help-query-gpu": "help-gpu",
    "--help-query-compute-apps": "help-users",
}
_FORMATS = ("csv", "noheader", "nounits")
_MONITOR_FORMATS = ("csv", "noheader", "nounit")


def parse(words: Sequence[str]) -> Request:
    """Parse the words after ``nvidia-smi``."""
    request = Request()
    rest = list(words)
    monitors = bool(rest) and rest[0] in ("dmon", "pmon")
    if monitors:
        request.what, request.every = rest.pop(0), 1.0
    formatted = queried = False
    format_word = ""
    narrowing: list[str] = []
    while rest:
        word = rest.pop(0)
        flag, attached, value = word.partition("=")
        if flag in ("-h", "--help"):
            request.what = "help"
            return request
        if not monitors and flag in _PLAIN:
            request.what = _PLAIN[flag]
            continue
        if not monitors and flag in ("-x", "--xml-format"):
            request.xml = True
            continue
        if not monitors and flag in ("-l", "--loop"):
            if not attached:
                value = rest.pop(0) if rest and not rest[0].startswith("-") else "5"
            request.every = _seconds(value, flag)
            narrowing.append(word)
            continue
        kind = (_MONITOR_VALUED if monitors else _VALUED).get(flag)
        if kind is None:
            raise _unrecognized(word)
        if not attached:
            if not rest:
                raise Refusal(f"Option {flag} requires a value. {_HELP}", INVALID)
            value = rest.pop(0)
        if kind == "format":
            formatted, format_word = True, word
        elif kind in ("id", "loop-ms"):
            narrowing.append(word)
        queried |= kind.startswith("query-")
        _take(request, kind, value, flag, monitors)
    if formatted and not queried and not monitors:
        raise _unrecognized(format_word)
    if narrowing and request.what in _SINGLE:
        raise Refusal(f"ERROR: Option {narrowing[0]} is not valid for this command. {_HELP}\n")
    if request.xml and request.what != "details":
        raise Refusal(
            "Invalid combination of input arguments. Specify -q/--query and -x/--xml-format to run an XML query.  "
            f"{_HELP}\n"
        )
    return request


def _unrecognized(word: str) -> Refusal:
    return Refusal(f"ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'.\n", UNKNOWN)


def _take(request: Request, kind: str, value: str, flag: str, monitors: bool) -> None:
    if kind == "id":
        request.ids = [entry.strip() for entry in value.split(",") if entry.strip()]
    elif kind == "file":
        request.file = value
    elif kind == "sections":
        request.sections = [entry.strip().upper() for entry in value.split(",") if entry.strip()]
    elif kind == "loop-ms":
        request.every = _seconds(value, flag) / 1000
    elif kind == "delay":
        request.every = _seconds(value, flag)
    elif kind == "count":
        request.count = int(_seconds(value, flag))
    elif kind == "metrics":
        request.metrics = value
    elif kind == "stamps":
        request.stamps = value.upper()
    elif kind == "format":
        request.format = {entry.strip() for entry in value.split(",")}
        if request.format - set(_MONITOR_FORMATS if monitors else _FORMATS):
            raise Refusal("Format modifier is not recognized.")
    else:
        request.what = "gpu" if kind == "query-gpu" else "users"
        request.fields = [_field(name.lstrip(), request.what) for name in value.split(",")] if value else []


def _field(name: str, what: str) -> Field:
    found = of_gpu(name) if what == "gpu" else of_user(name)
    if found is None:
        raise Refusal(f'Field "{name}" is not a valid field to query.\n', INVALID)
    return found


def _seconds(text: str, flag: str) -> float:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise Refusal(f'Invalid value "{text}" for {flag}: a whole number is needed. {_HELP}', INVALID)
    return float(value)
