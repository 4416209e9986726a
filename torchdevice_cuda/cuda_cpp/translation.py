"""CUDA's language in C++: kernels, launches and shared memory become functions, calls and objects of ours.

A source arrives preprocessed, with the lines that say which file is which, so that macros and headers of the program
are translated, too, and the compiler's messages name the program's lines. Three things are rewritten:

- a kernel's body becomes a function of the thread, called for every thread of a block (`host_cuda::run_block`);
- ``name<<<...>>>`` becomes an object that is called with the arguments (`host_cuda::launcher`);
- ``__shared__`` declarations become references to objects of the block (`host_cuda::shared_object`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from . import arithmetic, assembly, barriers, casts, instances, lockstep, own_names, plain, refusals
from .functions import Kernel
from .tokens import CLOSING, OPENING, Token, after, before, closing, opening, replace, tokenize

_MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"([ \d]*)$')
_TRIGGERS = ("__global__", "<<<", "__shared__")
_INDEX = {
    "threadIdx": "(::host_cuda::worker->thread)",
    "blockIdx": "(::host_cuda::worker->block)",
    "blockDim": "(::host_cuda::worker->launch->block)",
    "gridDim": "(::host_cuda::worker->launch->grid)",
}
_PARAMETERS = "const uint3 threadIdx, const uint3 blockIdx, const dim3 blockDim, const dim3 gridDim"
_ELSEWHERE = {
    "NULL": "nullptr",
    "__null": "nullptr",
    "__assert_fail": "::host_cuda::assertion_failed",
    "__noinline__": "__attribute__((noinline))",
    # The host's library has functions of these names, which it keeps for itself.
    **{f"__{name}f": f"host_cuda_{name}f" for name in "exp exp10 log log2 log10 sin cos tan tanh sincos pow".split()},
}


@dataclasses.dataclass
class Chunk:
    """Lines of one file, as the preprocessor left them."""

    file: str
    line: int
    system: bool
    marker: str
    text: str


def chunks(preprocessed: str) -> Iterator[Chunk]:
    """Return the text by file."""
    current = Chunk("", 1, False, "", "")
    lines: list[str] = []
    systems: set[str] = set()  # the mark of a system's file is also on macros of one, in whatever file they are used
    for line in preprocessed.splitlines(keepends=True):
        found = _MARKER.match(line) if line.startswith("# ") else None
        if found is None:
            lines.append(line)
            continue
        current.text = "".join(lines)
        yield current
        name = found[2].replace("\\\\", "\\").replace('\\"', '"')
        if {"1", "3"} <= set(found[3].split()):
            systems.add(name)
        current, lines = Chunk(name, int(found[1]), name in systems, line, ""), []
    current.text = "".join(lines)
    yield current


@dataclasses.dataclass
class Findings:
    """What the translation saw of a source's kernels."""

    #: How the threads of kernels with barriers run.
    choices: list[barriers.Choice] = dataclasses.field(default_factory=list)
    #: How many tokens all instances of the kernels have, about.
    size: int = 0


def translate(
    preprocessed: str,
    is_foreign: Callable[[str], bool],
    checked: bool = False,
    splits: bool = True,
    findings: Findings | None = None,
    counted: bool = False,
) -> str:
    """Translate a source to C++. `foreign` files (headers of the system, PyTorch's, ours) are left as they are.

    The chunks of the program's are joined before they are read: a kernel may include another file in its midst.
    """
    parts: list[str] = []  # of the result, where the program's are still to be filled in
    tokens: list[Token] = []  # all of the program's
    spans: list[tuple[int, int, int]] = []  # its place in parts, and which tokens
    files: list[str] = []  # of the spans
    refused: list[str] = []
    for chunk in chunks(preprocessed):
        parts.append(chunk.marker)
        ours = not chunk.system and bool(chunk.file) and not chunk.file.startswith("<") and not is_foreign(chunk.file)
        if not ours and (is_foreign(chunk.file) or not any(word in chunk.text for word in _TRIGGERS)):
            parts.append(chunk.text)
            continue
        found = tokenize(chunk.text, chunk.line)
        refused.extend(refusals.check(found, chunk.file))
        spans.append((len(parts), len(tokens), len(tokens) + len(found)))
        files.append(chunk.file)
        tokens.extend(found)
        parts.append("")
    if assembly.has_statements(tokens):
        tokens, spans = assembly.expand(tokens, spans, refusals.describe)
        if "namespace host_ptx" not in preprocessed and any("host_ptx" in token.text for token in tokens):
            refused.append(f"{files[0]}: error: {assembly.UNSEEN}")
    if any(token.text == "volatile" for token in tokens):
        tokens, spans = replace(tokens, lockstep.list_replacements(tokens), spans)
    if refused:
        raise refusals.Refused("\n".join(refused))
    if counted:
        tokens, spans = replace(tokens, arithmetic.list_replacements(tokens, list(kernels(tokens))), spans)
    texts = rewritten(tokens, checked, splits, findings)
    for place, start, end in spans:
        made = "".join(texts[start:end])
        # What is rewritten may end a kernel in an earlier chunk than its last; a marker begins a line.
        parts[place] = made if made.endswith("\n") or place + 1 == len(parts) else f"{made}\n"
    return "".join(parts)


def rewritten(
    tokens: list[Token], checked: bool = False, splits: bool = True, findings: Findings | None = None
) -> list[str]:
    """Return the text that each token becomes; add to the findings.

    Checked kernels are no plain loops: their threads say who they are.
    """
    texts = [token.text for token in tokens]
    found = list(kernels(tokens))
    reach = plain.Reach(tokens, [(kernel.body, kernel.end) for kernel in found])
    inside = [False] * len(tokens)
    for kernel in found:
        for i in range(kernel.body, kernel.end):
            inside[i] = True
    depth = _depths(tokens)
    casts.keep_types(tokens, texts, {kernel.name for kernel in found})
    own = own_names.find_own(tokens, frozenset(_INDEX), depth)
    for at, token in enumerate(tokens):
        if token.kind == "name":
            if token.text == "__global__":
                texts[at] = ""
            elif token.text == "__shared__":
                _shared(tokens, texts, at, in_function=depth[at] > 0)
            elif token.text in _INDEX and not inside[at] and at not in own:
                texts[at] = _INDEX[token.text]
            elif token.text in _ELSEWHERE and not _in_attribute(tokens, at):
                texts[at] = _ELSEWHERE[token.text]
            elif token.text == "clock" and _is_call(tokens, at):
                texts[at] = "host_cuda_clock"
        elif token.text.startswith("<<") and token.text.endswith(" <") or token.text == "<<<":
            _launch(tokens, texts, at)
    split = barriers.Kernels(tokens, texts, reach)
    for kernel in found:
        is_plain = not checked and reach.is_plain(kernel.body, kernel.end)
        choice = split.choose(kernel) if splits and not is_plain and split.waits(kernel) else None
        if choice is not None and findings is not None:
            findings.choices.append(choice)
        if choice is not None and choice.body:
            texts[kernel.body] = choice.body
            for i in range(kernel.body + 1, kernel.end + 1):
                texts[i] = ""
        else:
            texts[kernel.body] = (
                f"{{ ::host_cuda::run_block<{'true' if is_plain else 'false'}>([=]({_PARAMETERS}) mutable "
            )
            texts[kernel.body] += "{ (void)threadIdx; (void)blockIdx; (void)blockDim; (void)gridDim; "
            texts[kernel.end] = "}); }"
    split.write_functions()
    if findings is not None:
        findings.size = instances.estimate(tokens, found, reach.list_functions())
    return texts


def _is_call(found: list[Token], at: int) -> bool:
    """Return whether a name is called without arguments: it is no member, and no type comes before it."""
    bracket, earlier = after(found, at), found[before(found, at)]
    if found[bracket].text != "(" or found[after(found, bracket)].text != ")":
        return False
    return earlier.text == "return" or (earlier.kind == "mark" and earlier.text not in (".", "->", "::", "*", "&"))


def _in_attribute(tokens: list[Token], at: int) -> bool:
    """Return whether a name is an attribute's: the C++ library writes ``__attribute__((__noinline__))`` itself."""
    return tokens[at].text == "__noinline__" and tokens[before(tokens, at)].text == "("


# ------------------------------------------------------------- kernels
def kernels(tokens: list[Token]) -> Iterator[Kernel]:
    """List the kernels that have a body."""
    for at, token in enumerate(tokens):
        if token.kind != "name" or token.text != "__global__":
            continue
        name, last, i = "", "", after(tokens, at)
        while i < len(tokens):
            text = tokens[i].text
            if text == ";":
                break
            if text == "{":
                yield Kernel(name, at, i, closing(tokens, i))
                break
            if text == "(":
                name = last
                i = closing(tokens, i)
            elif tokens[i].kind == "name":
                last = text
            i = after(tokens, i)


def _depths(tokens: list[Token]) -> list[int]:
    """Count the functions or lambdas around each token. Braces of namespaces, classes and extern "C" do not count."""
    depths, stack = [], []
    for at, token in enumerate(tokens):
        if token.kind == "mark" and token.text == "{":
            stack.append(0 if _is_scope(tokens, at) else 1)
        elif token.kind == "mark" and token.text == "}" and stack:
            stack.pop()
        depths.append(sum(stack))
    return depths


def _is_scope(tokens: list[Token], at: int) -> bool:
    """Return whether a brace opens a namespace, a class or extern "C"."""
    i = before(tokens, at)
    while i >= 0 and tokens[i].text not in (";", "{", "}", ")"):
        if tokens[i].text in ("namespace", "struct", "class", "union", "enum", "extern"):
            return True
        i = before(tokens, i)
    return False


# ------------------------------------------------------------- launches
def _launch(tokens: list[Token], texts: list[str], at: int) -> None:
    """Rewrites ``name<<<...>>>``."""
    end, depth = at + 1, 0
    while end < len(tokens) and (depth or not _ends_launch(tokens, end)):
        depth += (tokens[end].text in CLOSING) - (tokens[end].text in OPENING)
        end += 1
    if end >= len(tokens):
        return  # no launch: the compiler will say what is wrong with it
    start = _callee(tokens, at)
    callee = "".join(texts[start:at]).strip()
    shown = " ".join(callee.split()).replace("\\", "\\\\").replace('"', '\\"')
    texts[start] = f'::host_cuda::launcher("{shown}", ::host_cuda::config('
    for i in range(start + 1, at + 1):
        texts[i] = ""
    if tokens[end].text == ">>":  # written `>> >`
        texts[after(tokens, end)] = ""
    texts[end] = f"), [=](auto&... host_cuda_arguments) {{ {callee}(host_cuda_arguments...); }})"


def _ends_launch(tokens: list[Token], at: int) -> bool:
    """Return whether ``>>>``, or ``>> >`` before the arguments, is here."""
    if tokens[at].text != ">>":
        return tokens[at].text == ">>>"
    last = after(tokens, at)
    following = after(tokens, last)
    return following < len(tokens) and (tokens[last].text, tokens[following].text) == (">", "(")


def _callee(tokens: list[Token], at: int) -> int:
    """Return the beginning of the launched expression."""
    i = before(tokens, at)
    if i >= 0 and tokens[i].text in (">", ">>", ">>>"):
        depth = 0
        while i >= 0:
            text = tokens[i].text
            if text in OPENING:
                i = opening(tokens, i)
            elif text in (">", ">>", ">>>"):
                depth += len(text)
            elif text == "<":
                depth -= 1
                if depth == 0:
                    break
            i -= 1
        i = before(tokens, i)
    elif i >= 0 and tokens[i].text in (")", "]"):
        i = opening(tokens, i)
        if tokens[i].text == "[":
            i = before(tokens, i)
    while i >= 0:
        j = before(tokens, i)
        if j < 0 or tokens[j].text not in ("::", ".", "->"):
            return i
        k = before(tokens, j)
        if k < 0 or tokens[k].kind != "name" or tokens[k].text in ("return", "else", "do"):
            return j
        i = k
    return at


# ------------------------------------------------------------- shared memory
def _shared(tokens: list[Token], texts: list[str], at: int, *, in_function: bool) -> None:
    """Rewrites a declaration of shared memory."""
    start = _declaration(tokens, at)
    end = at
    while end < len(tokens) and tokens[end].text != ";":
        end = closing(tokens, end) + 1 if tokens[end].text in CLOSING else end + 1
    words = [i for i in range(start, end) if tokens[i].kind != "space"]
    dynamic = any(tokens[i].text == "extern" for i in words)
    kept = [i for i in words if tokens[i].text not in ("extern", "static", "__shared__")]
    names = list(_declared(tokens, kept))
    lines = "\n" * sum(tokens[i].text.count("\n") for i in range(start, end))
    if dynamic:
        name = names[0]
        kind = " ".join(tokens[i].text for i in kept[: kept.index(name)])
        kind = _without_alignment(kind)
        sizes = " ".join(tokens[i].text for i in kept if i > closing(tokens, after(tokens, name)))
        if in_function:
            pointer = f"::std::add_pointer_t<{kind}{sizes}>" if sizes else f"{kind}*"
            made = f"{pointer} {tokens[name].text} = reinterpret_cast<{pointer}>(::host_cuda::dynamic_shared())"
        else:
            made = f"static ::host_cuda::DynamicShared<{kind}{sizes}> {tokens[name].text}"
    elif in_function:
        struct = f"host_cuda_shared_{tokens[at].line}_{at}"
        made = f"struct {struct} {{ {' '.join(tokens[i].text for i in kept)}; }}; "
        made += f"auto& {struct}_object = ::host_cuda::shared_object<{struct}>(); "
        made += "; ".join(f"auto& {tokens[i].text} = {struct}_object.{tokens[i].text}" for i in names)
    else:
        made = "static thread_local " + " ".join(tokens[i].text for i in kept)
    texts[start] = made + lines
    for i in range(start + 1, end):
        texts[i] = ""


def _without_alignment(kind: str) -> str:
    """Return a type's text without what it says of alignment."""
    return re.sub(r"(?:alignas|__attribute__|__align__)\s*(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))", "", kind).strip()


def _declaration(tokens: list[Token], at: int) -> int:
    """Return the beginning of the statement that a token is in."""
    start, i = at, before(tokens, at)
    while i >= 0 and tokens[i].text not in (";", "{", "}", ":"):
        start = i
        i = before(tokens, i)
    return start


def _declared(tokens: list[Token], words: list[int]) -> Iterator[int]:
    """Return the positions of the names that a declaration declares."""
    angle, i, last = 0, 0, -1
    while i < len(words):
        text = tokens[words[i]].text
        if text in ("(", "[", "{"):
            if text == "[" and last >= 0 and not angle:
                yield last
                last = -1
            close = closing(tokens, words[i])
            while i < len(words) and words[i] < close:
                i += 1
        elif text == "<":
            angle += 1
        elif text in (">", ">>", ">>>"):
            angle -= len(text)
        elif text in (",", "=") and not angle:
            if last >= 0:
                yield last
            last = -1
        elif tokens[words[i]].kind == "name" and not angle:
            last = words[i]
        i += 1
    if last >= 0:
        yield last


def is_below(*roots: Path) -> Callable[[str], bool]:
    """Return whether a file is in one of the folders."""
    starts = tuple(f"{root}/" for root in roots)
    return lambda file: file.startswith(starts)
