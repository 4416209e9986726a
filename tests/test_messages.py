"""Every error of our own names what was asked for and what to do next; those of CUDA and torch are verbatim."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torchdevice_cuda

PACKAGE = Path(torchdevice_cuda.__file__).parent
#: Errors that people see, and that only we raise.
OURS = {
    "ActivationError",
    "ArgumentTypeError",
    "BuildError",
    "DriverUnavailable",
    "FallbackError",
    "ProgramNotFound",
    "RequestError",
    "ScanError",
    "SettingsError",
    "UsageError",
}
#: Whatever the error is called, a message with our name is ours.
NAME = "torchdevice_cuda"
_VERBS = (
    "add|allow|call|catch|check|choose|copy|end|free|give|install|leave|move|name|put|remove|rename|run|see|set|use|"
    "write"
)
#: What to type, or an order: at the start of a sentence or of a part of one.
STEP = re.compile(
    r"allowed: |known: |parts: |did you mean|pip install|python -m|TORCHDEVICE_|\S\s--[a-z]|"
    rf"(?:^|[.;:,(]\s|\bor |\band )(?:{_VERBS})\b",
    re.IGNORECASE,
)
#: What is asked for: a value, a function, an option.
ASKED = re.compile(r"\{|TORCHDEVICE_|\w\(\)|--[a-z]|torch")


#: Messages that end with another one, which has a next step, by file; the text that they begin with.
PASSED_ON = {
    ("integrations/pytest_plugin.py", "--torchdevice: {words}"),
    ("launch/program.py", "{sys.orig_argv[0]}: can't open file"),  # as Python says it
    ("native/build.py", "the native device{which} is not built ({said}); {_HOW[kind]}"),
    ("native/build.py", "{refused.why}; {again} builds it again"),
    ("native/build.py", "{why}, and it cannot be built again: {error}"),
    ("native/compilation.py", "{error}{_keep("),
    ("native/processes.py", "{what} failed ({command[0]}"),  # what the compiler said comes next
    ("native/processes.py", "the build was ended"),  # by the user
    ("settings/variables.py", "there is no variable {name} (set to {environ[name]}){hint} {_LISTED}"),
}


class Message(NamedTuple):
    where: str
    error: str
    text: str


def text_of(node: ast.expr) -> str:
    """Return a literal's text, with the expressions in it in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return f"{{{ast.unparse(node)}}}"


def messages() -> Iterator[Message]:
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call) or not node.exc.args:
                continue
            error = ast.unparse(node.exc.func).rpartition(".")[2]
            text = text_of(node.exc.args[0])
            if error in OURS or (NAME in re.sub(r"\{.*?\}", "", text)):
                yield Message(f"{file.relative_to(PACKAGE)}:{node.lineno}", error, text)


def test_the_source_has_messages() -> None:
    found = list(messages())
    assert len(found) > 40
    assert {"ActivationError", "BuildError", "SettingsError", "UsageError"} <= {each.error for each in found}


def is_passed_on(message: Message) -> bool:
    file = message.where.rpartition(":")[0]
    is_whole = re.fullmatch(r"\{[^{}]*\}", message.text) is not None
    return is_whole or any(file == one and message.text.startswith(start) for one, start in PASSED_ON)


def test_each_names_what_was_asked_and_what_to_do() -> None:
    wrong = [
        each
        for each in messages()
        if not is_passed_on(each) and not (ASKED.search(each.text) and STEP.search(each.text))
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_each_exception_is_needed() -> None:
    files = {(each.where.rpartition(":")[0], each.text) for each in messages()}
    assert [
        one for one in PASSED_ON if not any(file == one[0] and text.startswith(one[1]) for file, text in files)
    ] == []
