"""Device functions whose threads wait for each other: their parts, so that they can be split as kernels are."""

from __future__ import annotations

import dataclasses

from .expressions import Expressions, Span
from .tokens import Token, before, closing, opening

#: What threads wait for.
BLOCK, WARP = "block", "warp"
_DROPPED = {"static", "inline", "constexpr", "__inline__", "__inline", "__noinline__", "extern"}


@dataclasses.dataclass
class Kernel:
    """A kernel that has a body."""

    name: str
    start: int  # where `__global__` is
    body: int  # where its opening brace is
    end: int  # where its closing brace is


@dataclasses.dataclass
class Parameter:
    """A parameter: its name, and the tokens of its type."""

    name: str
    type: Span
    is_pointer: bool
    is_reference: bool
    is_const: bool
    group: str  # BLOCK or WARP for a group of threads, else nothing
    is_array: bool


@dataclasses.dataclass
class Function:
    """A function with a body. Positions are those of brackets; `template` and `result` are stretches."""

    name: str
    body: int
    end: int
    template: Span
    result: Span
    parameters: list[Parameter]
    is_kernel: bool = False
    waits_for: str = WARP
    #: Parameters on which it depends how often threads wait: all threads must pass the same.
    uniform: set[str] = dataclasses.field(default_factory=set)
    text: str = ""  # the split function


def read_function(on: Expressions, name: str, body: int, *, is_kernel: bool = False) -> Function | None:
    """Read a function's head, back from its body; nothing if it is a member or has an unusual head."""
    tokens = on.tokens
    i = before(tokens, body)
    while i >= 0 and on.text(i) in ("const", "noexcept", "override", "final"):
        i = before(tokens, i)
    close, start = i, opening(tokens, i)
    at = before(tokens, start)
    parameters = read_parameters(on, (start + 1, close))
    if parameters is None or on.text(before(tokens, at)) == "::":
        return None
    first = at
    while True:
        i = before(tokens, first)
        if i < 0 or on.text(i) in (";", "{", "}", ":") or (tokens[i].kind == "string"):
            break
        if on.text(i) in (")", "]"):
            i = opening(tokens, i)
        first = i
    template = (first, first)
    if on.text(first) == "template":
        end = _end_of_template(on, first)
        template = (first, end)
    if not is_kernel and _is_in_class(tokens, body):
        return None
    return Function(name, body, closing(tokens, body), template, (template[1], at), parameters, is_kernel)


def _end_of_template(on: Expressions, at: int) -> int:
    depth, i = 0, at + 1
    while i < len(on.tokens):
        text = on.text(i)
        if text == "<":
            depth += 1
        elif text in (">", ">>"):
            depth -= len(text)
            if depth <= 0:
                return i + 1
        i += 1
    return at


def _is_in_class(tokens: list[Token], at: int) -> bool:
    i = at - 1
    while i >= 0:
        text = tokens[i].text
        if text == "}" and tokens[i].kind == "mark":
            i = opening(tokens, i)
        elif text == "{" and tokens[i].kind == "mark":
            k = before(tokens, i)
            while k >= 0 and tokens[k].text not in (";", "{", "}", ")"):
                if tokens[k].text in ("struct", "class", "union"):
                    return True
                k = before(tokens, k)
        i -= 1
    return False


def read_result(on: Expressions, span: Span) -> str:
    """Return the type that a function returns, without words about its linkage; nothing if it is deduced."""
    words, i = [], span[0]
    while i < span[1]:
        text = on.text(i)
        if text == "__attribute__":
            i = closing(on.tokens, next(k for k in range(i, span[1]) if on.text(k) == "("))
        elif on.tokens[i].kind != "space" and text not in _DROPPED:
            words.append(text)
        i += 1
    return "" if "auto" in words or "decltype" in words else " ".join(words)


def read_parameters(on: Expressions, span: Span) -> list[Parameter] | None:
    """Read the parameters of a function; nothing if one has no name or is a pack."""
    found = []
    for start, end in on.split_arguments(span):
        words = on.words((start, end))
        texts = [on.text(i) for i in words]
        if texts == ["void"]:
            continue
        for mark in ("=", "["):
            if mark in texts:
                words = words[: texts.index(mark)]
        is_array = "[" in texts
        texts = texts[: len(words)]
        if len(words) < 2 or on.tokens[words[-1]].kind != "name" or "(" in texts or texts.count(".") > 1:
            return None
        group = ""
        if any(text in ("thread_block_tile", "coalesced_group") for text in texts):
            group = WARP
        elif "thread_block" in texts:
            group = BLOCK
        is_const = "const" in texts and "*" not in texts
        is_pointer = "*" in texts or is_array
        found.append(
            Parameter(
                texts[-1], (words[0], words[-1]), is_pointer, "&" in texts and not is_const, is_const, group, is_array
            )
        )
    return found


def name_split(name: str, *, is_masked: bool) -> str:
    """Return the name of a split function: for some threads (masked), or for all."""
    return f"{name}_loops" if is_masked else f"{name}_loops_all"


def write_held(on: Expressions, parameter: Parameter) -> str:
    """Return the type of what is stored for a parameter: values without const, references as pointers."""
    texts = [on.text(i) for i in on.words(parameter.type)]
    if "*" not in texts:
        texts = [text for text in texts if text != "const"]
    texts = [text for text in texts if text not in ("&", "__restrict__", "__restrict")]
    if texts[-1] == "const" and not parameter.is_reference:
        texts.pop()  # of the pointer itself
    kind = " ".join(texts)
    kind += "*" * parameter.is_array
    return f"{kind}*" if parameter.is_reference else kind


def held_type(on: Expressions, function: Function, parameter: Parameter, explicit: list[str]) -> str:
    """Return the type that an argument is converted to; nothing if the compiler deduces it from the argument."""
    names = [on.text(words[-1]) for span in _template_parameters(on, function.template) if (words := on.words(span))]
    known = dict(zip(names, explicit, strict=False))
    kind = write_held(on, parameter)
    if on.names(parameter.type) & set(names) - set(known):
        return ""
    return " ".join(known.get(word, word) for word in kind.split())


def _template_parameters(on: Expressions, span: Span) -> list[Span]:
    words = on.words(span)
    if len(words) < 3:
        return []
    parts = on.split_arguments((words[1] + 1, words[-1]))
    found = []
    for start, end in parts:
        mark = next((i for i in range(start, end) if on.text(i) == "="), end)
        found.append((start, mark))
    return found
