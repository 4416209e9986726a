"""Read TTIR's text: the bindings of the public wheel give few attributes of operations."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .ir import Block, Function, Op, Type, Unsupported, Value

_NAME = r"%[\w$.\-]+(?:#\d+)?"
_SYMBOL = r'[\w$.]+|"[^"]*"'
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_OPENING, _CLOSING = "<([{", ")]}"
#: Operations that end a block of a loop or a condition.
_ENDS = ("scf.yield", "scf.condition")
_ENTRY = ""


def parse(text: str) -> Function:
    """Return the kernel of a module."""
    return _Parser(text).parse_kernel()


def parse_type(text: str) -> Type:
    """Read a type."""
    text = text.strip()
    if text.startswith("tensor<"):
        found = re.match(r"((?:\d+x)*)(.*)", text[7:-1])
        assert found is not None
        shape = tuple(int(size) for size in found[1].split("x") if size)
        return Type(shape, parse_type(_split(found[2])[0]).element)
    if text.startswith("!tt.ptr<"):
        inner = _split(text[8:-1])[0]
        if inner.startswith("tensor<"):
            raise Unsupported("a block pointer")
        return Type((), f"ptr<{parse_type(inner).element}>")
    if text.startswith("!tt.tensordesc<"):
        return _parse_descriptor(text)
    if text.startswith("!"):
        raise Unsupported(f"the type {text.partition('<')[0]}")
    return Type((), text)


def _parse_descriptor(text: str) -> Type:
    """Read a tensor descriptor's type; releases write its block with and without the word tensor."""
    block = text[text.index("<") + 1 : -1].removeprefix("tensor<").removesuffix(">")
    return Type((), f"desc<{block}>")


def _depths(text: str) -> list[int]:
    """Return how many brackets are open after each character; those of strings do not count."""
    depth, depths, in_string = 0, [], False
    for at, character in enumerate(text):
        if character == '"' and text[at - 1] != "\\":
            in_string = not in_string
        elif not in_string and character in _OPENING:
            depth += 1
        elif not in_string and (character in _CLOSING or (character == ">" and text[at - 1] != "-")):
            depth -= 1
        depths.append(depth + in_string)
    return depths


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, last = [], 0
    for at, depth in enumerate(_depths(text)):
        if depth == 0 and text[at] == ",":
            parts.append(text[last:at])
            last = at + 1
    return [part.strip() for part in [*parts, text[last:]] if part.strip()]


def _split_signature(text: str) -> tuple[str, str]:
    """Split an operation at the last colon outside of brackets; the types are behind it."""
    found = [at for at, depth in enumerate(_depths(text)) if depth == 0 and text[at] == ":"]
    return (text[: found[-1]].rstrip(), text[found[-1] + 1 :].strip()) if found else (text, "")


def _types(text: str) -> list[Type]:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return [parse_type(part) for part in _split(text)]


def _strip_locations(line: str) -> tuple[str, str]:
    """Remove every ``loc(...)`` of a line, and return the last."""
    location = ""
    while (at := _find_location(line)) >= 0:
        depths = _depths(line[at + 5 :])
        end = next((i for i, depth in enumerate(depths) if depth < 0), len(depths) - 1)
        location = line[at + 5 : at + 5 + end]
        line = line[:at] + line[at + 6 + end :]
    return line, location


def _strip_comment(line: str) -> str:
    """Remove a comment of MLIR; one within a string is assembly's."""
    at = _mask_strings(line).find("  // ")
    return line[:at] if at >= 0 else line


def _mask_strings(line: str) -> str:
    return _STRING.sub(lambda found: "_" * len(found[0]), line) if '"' in line else line


def _find_location(line: str) -> int:
    return _mask_strings(line).find(" loc(")


class _Locations:
    """The lines of the program that ``#loc3`` and its like stand for."""

    def __init__(self, text: str) -> None:
        self._aliases = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE))

    def resolve(self, location: str) -> str:
        """Return file and line: of a function that was called, those of the call in the kernel."""
        for _ in range(100):
            if found := re.fullmatch(r'"([^"]*)":(\d+):\d+(?: to :?[\d:]+)?', location):
                return f"{found[1]}:{found[2]}"
            if found := re.search(r"callsite\(.* at (.*)\)$", location):
                location = found[1]
            elif found := re.search(r"(#loc\d*)", location):
                location = self._aliases.get(found[1], "")
            elif found := re.search(r'"([^"]*)":(\d+):\d+', location):
                return f"{found[1]}:{found[2]}"
            else:
                break
        return ""


class _Scope:
    """Values by name, with those of the blocks around."""

    def __init__(self, outer: _Scope | None = None) -> None:
        self._outer, self._values = outer, dict[str, Value]()

    def get(self, name: str) -> Value:
        """Look a name up."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope._values:
                return scope._values[name]
            scope = scope._outer
        raise Unsupported(f"TTIR with {name} before its definition")

    def set(self, name: str, value: Value) -> None:
        """Define a name."""
        self._values[name] = value


class _Parser:
    def __init__(self, text: str) -> None:
        self._locations = _Locations(text)
        stripped = [_strip_locations(_strip_comment(line).strip()) for line in text.splitlines()]
        kept = [(line.strip(), location) for line, location in stripped if line and not line.startswith(("#", "//"))]
        self._lines = [line for line, _ in kept]
        self._where = [location for _, location in kept]
        self._at = 0
        self._functions = {
            found[1]: at
            for at, line in enumerate(self._lines)
            if (found := re.match(rf"tt\.func .*?@({_SYMBOL})\(", line))
        }

    # ------------------------------------------------------------- functions
    def parse_kernel(self) -> Function:
        """Read the public function."""
        for name, at in self._functions.items():
            if self._lines[at].startswith("tt.func public"):
                args, blocks = self._parse_function(at, None)
                return Function(name, args, blocks)
        raise Unsupported("a module without a kernel")

    def _parse_function(self, at: int, given: Sequence[Value] | None) -> tuple[list[Value], dict[str, Block]]:
        head = self._lines[at]
        start = re.search(rf"@({_SYMBOL})\(", head).end() - 1  # type: ignore[union-attr]
        end = next(i for i, depth in enumerate(_depths(head[start:])) if depth == 0)
        scope, args = _Scope(), []
        for index, part in enumerate(_split(head[start + 1 : start + end])):
            name, _, kind = part.partition(": ")
            value = given[index] if given is not None else Value(parse_type(re.sub(r"\s*\{.*\}$", "", kind)))
            scope.set(name, value)
            args.append(value)
        self._at = at + 1
        blocks = self._parse_blocks(scope, args)
        self._at += 1
        return args, blocks

    def _parse_blocks(self, scope: _Scope, args: list[Value]) -> dict[str, Block]:
        """Read all blocks up to the line that closes them, which is left."""
        label = _ENTRY
        headers = self._list_labels(scope)
        blocks: dict[str, Block] = {}
        if not self._lines[self._at].startswith("^"):
            blocks[label] = Block(args)
        while not self._lines[self._at].startswith("}"):
            line = self._lines[self._at]
            if line.startswith("^"):
                label = _read_label(line)
                blocks[label] = Block(headers[label])
                self._at += 1
                continue
            blocks[label].ops += self._parse_op(scope)
        return blocks

    def _list_labels(self, scope: _Scope) -> dict[str, list[Value]]:
        """Define the arguments of a function's blocks; a branch may come before them."""
        depth, at, found = 0, self._at, dict[str, list[Value]]()
        while depth or not self._lines[at].startswith("}"):
            line = self._lines[at]
            if depth == 0 and line.startswith("^"):
                found[_read_label(line)] = self._parse_block_args(line, scope)
            depth += line.endswith("{") - line.startswith("}")
            at += 1
        return found

    @staticmethod
    def _parse_block_args(line: str, scope: _Scope) -> list[Value]:
        values = []
        if "(" in line:
            for part in _split(line[line.index("(") + 1 : line.rindex(")")]):
                name, _, kind = part.partition(": ")
                values.append(Value(parse_type(kind)))
                scope.set(name, values[-1])
        return values

    def _inline(self, op: Op, scope: _Scope) -> list[Op]:
        """Read the body of a function that is called, in the place of the call."""
        name = op.find(rf"@({_SYMBOL})\(")
        after = self._at
        _, blocks = self._parse_function(self._functions[name], op.operands)
        self._at = after
        if len(blocks) > 1:
            return [Op("ttc.call", [], op.results, line=op.line, regions=list(blocks.values()), labels=list(blocks))]
        body = blocks[_ENTRY].ops
        returned = body.pop().operands
        for result, value in zip(op.results, returned, strict=True):
            body.append(Op("ttc.rename", [value], [result], line=op.line))
        return body

    # ------------------------------------------------------------ operations
    def _parse_block(self, scope: _Scope, args: list[Value] | None = None) -> Block:
        """Read up to the line that closes a block, which is left."""
        if self._lines[self._at].startswith("^"):
            args = self._parse_block_args(self._lines[self._at], scope)
            self._at += 1
        block = Block(args or [])
        while not self._lines[self._at].startswith("}"):
            if self._lines[self._at].startswith("^"):
                raise Unsupported("branches within a region")
            block.ops += self._parse_op(scope)
        if not block.ops or block.last.name not in _ENDS:
            block.ops.append(Op("scf.yield", [], []))  # MLIR does not print one that yields nothing
        return block

    def _parse_op(self, scope: _Scope) -> list[Op]:
        line = self._lines[self._at]
        self._at += 1
        names: list[str] = []
        if found := re.match(rf"({_NAME}(?::\d+)?(?:, {_NAME}(?::\d+)?)*) = (.*)", line):
            for group in found[1].split(", "):
                first, _, count = group.partition(":")
                names += [f"{first}#{index}" for index in range(int(count))] if count else [first]
            line = found[2]
        name = line.split("(")[0].strip('"') if line.startswith('"') else re.split(r"[ (]", line, maxsplit=1)[0]
        parse = {"scf.for": self._parse_for, "scf.if": self._parse_if, "scf.while": self._parse_while}.get(name)
        if parse is not None:
            op = parse(line, scope)
        elif line.endswith("({"):
            op = self._parse_with_region(name, line, scope)
        else:
            op = self._parse_plain(name, line, len(names), scope)
        op.line = self._locations.resolve(self._where[self._at - 1])  # regions have their location behind them
        for result, value in zip(names, op.results, strict=True):
            scope.set(result, value)
        return self._inline(op, scope) if name == "tt.call" else [op]

    def _parse_plain(self, name: str, line: str, results: int, scope: _Scope) -> Op:
        before, signature = _split_signature(line)
        plain = _STRING.sub("", line)
        targets = []
        if name in ("cf.br", "cf.cond_br"):
            for label, given in re.findall(r"\^(\w+)(?:\(([^)]*)\))?", plain):
                targets.append((label, [scope.get(one) for one in re.findall(_NAME, given.partition(" : ")[0])]))
            plain = plain.partition("^")[0]
        operands = [scope.get(one) for one in re.findall(_NAME, plain)]
        types = _result_types(name, signature, results)
        return Op(name, operands, [Value(kind) for kind in types], before, targets=targets)

    def _parse_for(self, line: str, scope: _Scope) -> Op:
        found = re.match(rf"scf\.for (unsigned )?({_NAME}) = ({_NAME}) to ({_NAME}) step ({_NAME})\s*(.*)\{{$", line)
        if found is None:
            raise Unsupported(f"the loop {line}")
        is_unsigned, counter, low, high, step, rest = found.groups()
        carried = re.findall(rf"({_NAME}) = ({_NAME})", rest)
        types = []
        if carried:
            at = rest.index("->") + 2
            end = next(i for i, depth in enumerate(_depths(rest[at:])) if depth == 0 and rest[at + i] == ")")
            types = _types(rest[at : at + end + 1])
            rest = rest[at + end + 1 :]
        kind = re.search(r":\s*(\w+)\s*$", rest)
        operands = [scope.get(one) for one in (low, high, step, *(init for _, init in carried))]
        inner = _Scope(scope)
        args = [Value(Type((), kind[1] if kind else "index")), *(Value(type_) for type_ in types)]
        for name, value in zip([counter, *(name for name, _ in carried)], args, strict=True):
            inner.set(name, value)
        op = Op("scf.for", operands, [Value(type_) for type_ in types], "unsigned" if is_unsigned else "")
        op.regions.append(self._parse_block(inner, args))
        self._at += 1
        return op

    def _parse_if(self, line: str, scope: _Scope) -> Op:
        found = re.match(rf"scf\.if ({_NAME})(?: -> (\(.*\)))? \{{$", line)
        if found is None:
            raise Unsupported(f"the condition {line}")
        types = _types(found[2]) if found[2] else []
        op = Op("scf.if", [scope.get(found[1])], [Value(type_) for type_ in types])
        op.regions.append(self._parse_block(_Scope(scope)))
        self._at += 1
        if self._lines[self._at - 1].startswith("} else {"):
            op.regions.append(self._parse_block(_Scope(scope)))
            self._at += 1
        return op

    def _parse_while(self, line: str, scope: _Scope) -> Op:
        carried = re.findall(rf"({_NAME}) = ({_NAME})", line)
        _, signature = _split_signature(line[:-1])
        inner, _, outer = signature.partition("->")
        args = [Value(type_) for type_ in _types(inner)]
        op = Op("scf.while", [scope.get(init) for _, init in carried], [Value(type_) for type_ in _types(outer)])
        before = _Scope(scope)
        for (name, _), value in zip(carried, args, strict=True):
            before.set(name, value)
        op.regions.append(self._parse_block(before, args))
        self._at += 1
        op.regions.append(self._parse_block(_Scope(scope)))
        self._at += 1
        return op

    def _parse_with_region(self, name: str, line: str, scope: _Scope) -> Op:
        operands = [scope.get(one) for one in re.findall(_NAME, line[line.index("(") :])]
        op = Op(name, operands, [], line)
        blocks = self._parse_blocks(_Scope(scope), [])
        op.regions, op.labels = list(blocks.values()), list(blocks)
        closing = self._lines[self._at]
        self._at += 1
        op.results = [Value(type_) for type_ in _types(closing.split("->", 1)[1])] if "->" in closing else []
        return op


def _read_label(line: str) -> str:
    return re.split(r"[(:]", line[1:], maxsplit=1)[0]


def _result_types(name: str, signature: str, count: int) -> list[Type]:
    if not count:
        return []
    if name == "tt.make_tensor_descriptor":
        return [_parse_descriptor(_split(signature)[-1])]
    if "->" in signature:
        types = _types(signature.split("->", 1)[1])
        return types * count if len(types) == 1 else types
    if " to " in signature:
        return [parse_type(signature.split(" to ")[1])]
    types = _types(signature) or [Type((), "i1")]  # true and false have no type in the text
    if name in ("arith.cmpi", "arith.cmpf"):
        return [types[0].with_element("i1")]
    if name == "arith.select":
        return [types[-1]]
    if name == "tt.load":
        return [types[0].with_element(types[0].pointee)]
    return [types[0]] * count
