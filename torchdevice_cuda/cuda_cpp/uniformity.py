"""What all threads of a block do alike: the variables and conditions of a function that do not depend on the thread.

A barrier divides a kernel only where all threads reach it. That is so in conditions and loops that depend on arguments,
on the block and on variables that are computed from these alone. A load from memory counts as the same for all threads
if its address is: the threads of a program without races read the same there.
"""

from __future__ import annotations

from collections.abc import Iterator

from .collectives import Call, Finder, find_aliases
from .expressions import Expressions, Span
from .functions import BLOCK, Function
from .plain import Reach
from .statements import Node, Variable
from .tokens import after, before

_LOOPS = ("for", "while", "do", "range")


class Unsplit(Exception):
    """A kernel cannot be split; the message says why."""


class Uniformity:
    """The statements of one function, and which of its variables are the same for all threads."""

    def __init__(
        self, on: Expressions, function: Function, root: Node, reach: Reach, functions: dict[str, Function]
    ) -> None:
        self.on = on
        self.function = function
        self.root = root
        self.reach = reach
        self.groups = {p.name: p.group for p in function.parameters if p.group}
        self._find_groups()
        aliases: dict[str, str] = {}
        for node in root.walk():
            if node.kind == "meta":
                aliases |= find_aliases(on, node.start, node.end)
        self.finder = Finder(on, self.groups, aliases, functions)
        self._calls: dict[int, list[Call]] = {}  # by statement, of its own tokens and of its parts
        self._count_calls(root)
        self.changed = self._find_changes()
        self.pointed = self._find_pointed()
        #: Variables of the statements between which threads wait, by name.
        self.declared: dict[str, list[Variable]] = {}
        self.parameters = {p.name: p for p in function.parameters}
        self.uniform: set[str] = set()
        self._sources: dict[
            str, set[str]
        ] = {}  # of variables that all threads change alike: what they are computed from
        self._declare(root.children)
        self.uniform = set(self.declared) | {name for name, p in self.parameters.items() if not p.is_reference}
        self.uniform -= set(self.groups)
        self._solve()
        if not function.is_kernel:
            function.uniform = self._find_needed()
            self.uniform -= set(self.parameters) - function.uniform
            self._solve()

    # --------------------------------------------------------- what waits
    def _find_groups(self) -> None:
        for node in self.root.walk():
            for variable in node.variables:
                words = self.on.names(variable.specifiers)
                if variable.initial is not None:
                    words |= self.on.names(variable.initial)
                if "this_thread_block" in words:
                    self.groups[variable.name] = BLOCK
                if "tiled_partition" in words or "thread_block_tile" in words:
                    self.groups[variable.name] = "warp"

    def own_spans(self, node: Node) -> list[Span]:
        """Return the stretches of a statement that are not in a statement of its own."""
        if node.kind == "for":
            return [node.condition, node.step]
        if node.kind in ("if", "while", "do", "range"):
            return [node.condition]
        return [] if node.kind in ("block", "meta", "shared") else [(node.start, node.end)]

    def _count_calls(self, node: Node) -> list[Call]:
        found = [call for span in self.own_spans(node) for call in self.finder.find(span)]
        for child in [*([node.initial] if node.initial else []), *node.children]:
            found.extend(self._count_calls(child))
        self._calls[id(node)] = found
        return found

    def calls(self, node: Node) -> list[Call]:
        """List the calls that wait in a statement."""
        return self._calls[id(node)]

    def waits_for_block(self, node: Node) -> bool:
        """Return whether a statement has a barrier of the block."""
        return any(call.waits_for == BLOCK for call in self.calls(node))

    # --------------------------------------------------------- what changes
    def _find_changes(self) -> dict[str, list[int]]:
        """Return where variables are changed, by name."""
        found: dict[str, list[int]] = {}
        pointers = {p.name for p in self.function.parameters if p.is_pointer or self._is_view(p.type)}
        pointers |= {
            v.name for node in self.root.walk() for v in node.variables if v.is_pointer and not self._is_array(v)
        }
        for i in range(self.root.start, self.root.end):
            if self.on.tokens[i].kind != "name" or self.on.text(before(self.on.tokens, i)) in (".", "->"):
                continue
            name = self.on.text(i)
            if self.on.is_changed(i, by_index=name not in pointers) or self._is_passed(i):
                found.setdefault(name, []).append(i)
        for node in self.root.walk():  # an initializer changes nothing; a reference may change what it is bound to
            for variable in node.variables:
                places = found.get(variable.name, [])
                if variable.at in places:
                    places.remove(variable.at)
                if variable.is_reference and variable.initial is not None and not variable.is_const:
                    name = self.on.text(after(self.on.tokens, variable.initial[0] - 1))
                    if name not in pointers:
                        found.setdefault(name, []).append(variable.initial[0])
        return {name: places for name, places in found.items() if places}

    def _find_pointed(self) -> set[str]:
        """Return the names that pointers, references and variables of deduced types are made from."""
        found: set[str] = set()
        pointers: set[str] = set()
        for node in self.root.walk():
            for variable in node.variables:
                if variable.is_pointer or variable.is_reference or variable.is_auto:
                    pointers.add(variable.name)
                    found |= self.on.names(variable.initial) if variable.initial is not None else set()
        for node in self.root.walk():
            assigned = self.on.find_assignment((node.start, node.end)) if node.kind == "express" else None
            if assigned is not None and assigned[0] in pointers:
                found |= self.on.names(assigned[1])
        return found

    def _is_array(self, variable: Variable) -> bool:
        return variable.sizes[0] < variable.sizes[1]

    def _is_view(self, type_: Span) -> bool:
        return any("Accessor" in name for name in self.on.names(type_))

    def _is_passed(self, at: int) -> bool:
        """Return whether a variable is an argument of a function that may change it."""
        on = self.on
        if on.text(before(on.tokens, at)) not in ("(", ",") or on.text(after(on.tokens, at)) not in (")", ","):
            return False
        depth, i = 0, before(on.tokens, at)
        while i > self.root.start:
            text = on.text(i)
            depth += (text == ")") - (text == "(")
            if depth < 0:
                break
            if text in (";", "{", "}"):
                return False
            i -= 1
        callee = before(on.tokens, i)
        return on.text(callee) in ("swap", "Swap", "SWAP") or self.reach.takes_references(on.text(callee))

    # --------------------------------------------------------- what is the same for all threads
    def is_uniform(self, span: Span) -> bool:
        """Return whether an expression has the same value for all threads."""
        on = self.on
        if on.has_changes(span) or any(on.text(i) == "{" for i in range(*span)):
            return False
        calls = self.finder.find(span)
        if any(call.kind != "vote" for call in calls):
            return False
        for i in on.words(span):
            if on.tokens[i].kind != "name" or any(call.start <= i < call.end for call in calls):
                continue
            name = on.text(i)
            if name == "threadIdx" or name in self.groups:
                return False
            if on.text(before(on.tokens, i)) in (".", "->"):
                if on.is_call(i) and not on.is_pure_call(i):
                    return False
            elif name in self.declared or name in self.parameters:
                if name not in self.uniform:
                    return False
            elif on.is_call(i) and not on.is_pure_call(i) and not self._is_type_or_constant(i):
                return False
        return True

    def _is_type_or_constant(self, at: int) -> bool:
        """Return whether a called name is a type of the template's: a conversion."""
        name = self.on.text(at)
        return name in self.on.names(self.function.template)

    def _solve(self) -> None:
        while True:
            self._lost: set[str] = set()
            self._allowed: set[int] = set()
            self._judge(self.root.children, divergent=False)
            for name in self.uniform:
                if any(at not in self._allowed for at in self.changed.get(name, ())):
                    self._lost.add(name)
            if not self._lost & self.uniform:
                break
            self.uniform -= self._lost

    def _declare(self, nodes: list[Node]) -> None:
        for node in nodes:
            for variable in node.variables:
                self.declared.setdefault(variable.name, []).append(variable)
            if self.calls(node) or (node.kind in ("if", "block") and any(True for _ in self.list_escapes(node))):
                self._declare([*([node.initial] if node.initial else []), *node.children])
            else:
                self._hide(node)

    def _judge(self, nodes: list[Node], *, divergent: bool) -> None:
        """Find the variables of statements that differ between threads, and the changes that all make alike."""
        for node in nodes:
            for variable in node.variables:
                differs = divergent or variable.is_reference or self._is_array(variable)
                if differs or (variable.initial is not None and not self.is_uniform(variable.initial)):
                    self._lost.add(variable.name)
            if node.kind == "express":
                self._judge_change((node.start, node.end), divergent=divergent)
            if not self.is_structural(node, divergent=divergent):
                continue
            inside = divergent or not self.is_alike(node)
            if node.initial is not None:
                if node.initial.kind == "express":
                    for part in self.on.split_arguments((node.initial.start, node.initial.end - 1)):
                        self._judge_change(part, divergent=inside)
                else:
                    self._judge([node.initial], divergent=inside)
            for part in self.on.split_arguments(node.step) if node.kind == "for" else ():
                self._judge_change(part, divergent=inside)
            self._judge(node.children, divergent=inside)

    def _judge_change(self, span: Span, *, divergent: bool) -> None:
        found = self.on.find_assignment(span)
        if found is not None and not divergent and self.is_uniform(found[1]):
            self._allowed.update(i for i in range(*span) if self.on.text(i) == found[0])
            self._sources.setdefault(found[0], set()).update(self.on.names(found[1]))

    def _find_needed(self) -> set[str]:
        """Return the parameters on which it depends how often threads wait, and where."""
        seen: set[str] = set()
        waiting = [
            name
            for node in self.root.walk()
            if self.is_structural(node, divergent=False) and node.kind != "block" and self.is_alike(node)
            for name in self.on.names(node.condition)
        ]
        for call in self.calls(self.root):
            if call.function is not None:
                spans = self.on.split_arguments(call.arguments)
                for parameter, span in zip(call.function.parameters, spans, strict=False):
                    if parameter.name in call.function.uniform:
                        waiting.extend(self.on.names(span))
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            waiting.extend(self._sources.get(name, ()))
            for variable in self.declared.get(name, ()):
                if variable.initial is not None:
                    waiting.extend(self.on.names(variable.initial))
        return seen & set(self.parameters)

    def _hide(self, node: Node) -> None:
        """Forget changes of variables that a statement declares within itself."""
        if node.variables:
            return
        for inner in node.walk():
            for variable in inner.variables:
                start, end = self._find_scope(node, inner)
                places = self.changed.get(variable.name, [])
                places[:] = [at for at in places if not start <= at < end]
                if not places:
                    self.changed.pop(variable.name, None)

    def _find_scope(self, node: Node, declaration: Node) -> Span:
        """Return the stretch in which a declaration counts: the block or loop around it."""
        best = (node.start, node.end)
        for inner in node.walk():
            if declaration in inner.children or inner.initial is declaration:
                begin = declaration.start if inner.kind == "block" else inner.start
                best = (max(best[0], begin), min(best[1], inner.end))
        return best

    # --------------------------------------------------------- control flow
    def list_escapes(self, node: Node, kinds: tuple[str, ...] = ("return", "break", "continue")) -> Iterator[Node]:
        """List the statements that leave another: returns, and breaks of a loop around it."""
        if node.kind in kinds:
            yield node
        inner = kinds if node.kind not in _LOOPS else tuple(kind for kind in kinds if kind == "return")
        for child in node.children:
            yield from self.list_escapes(child, inner)

    def is_structural(self, node: Node, *, divergent: bool) -> bool:
        """Return whether a statement is divided: it has calls that wait, or leaves a loop for all threads alike."""
        if node.kind in ("block", "if", *_LOOPS) and self.calls(node):
            return True
        if divergent or (node.kind != "block" and not (node.kind == "if" and self.is_uniform(node.condition))):
            return False
        return any(True for _ in self.list_escapes(node))

    def is_alike(self, node: Node) -> bool:
        """Return whether all threads do the same in a statement that is divided."""
        if node.kind == "block":
            return True
        if not self.is_uniform(node.condition):
            return False
        return node.kind == "if" or not any(self._escapes_alone(child, False) for child in node.children)

    def _escapes_alone(self, node: Node, divergent: bool) -> bool:
        """Return whether some threads only may leave the loop that a statement is in."""
        if node.kind in ("break", "continue"):
            return divergent
        if node.kind in _LOOPS:
            return False
        inside = divergent or (node.kind == "if" and not self.is_uniform(node.condition)) or node.kind == "switch"
        return any(self._escapes_alone(child, inside) for child in node.children)
