"""Divide declarations and expressions of a function that is split: its variables, and its calls that wait."""

from __future__ import annotations

import re

from .collectives import SHUFFLES, Call
from .expressions import PURE, Span
from .functions import BLOCK, held_type, name_split, read_result
from .regions import ALWAYS, Around, Regions
from .statements import Variable
from .tokens import before, closing
from .uniformity import Unsplit

#: What constants are called, by most programs.
_CONSTANT = re.compile(r"const|[A-Z][A-Z0-9_]*|k[A-Z]\w*")
#: What a thread adds for a vote of the block, and what the vote is then.
_VOTES = {
    "__syncthreads_count": ("(({}) != 0)", "({})"),
    "__syncthreads_or": ("(({}) != 0)", "({} != 0)"),
    "__syncthreads_and": ("(({}) == 0)", "({} == 0)"),
}


class Exchanges(Regions):
    """Variables and calls that wait."""

    def _check_leaf(self, span: Span) -> None:
        calls = self._facts.finder.find(span)
        names: set[str] = set()
        at = span[0]
        for start, end in [*((c.start, c.end) for c in calls), (span[1], span[1])]:
            names |= self._facts.reach.list_names(at, start)
            at = end
        if self._facts.reach.waits(names):
            raise Unsplit(f"an operation that waits where it cannot be split, line {self._on.tokens[span[0]].line}")

    def _is_known(self, name: str) -> bool:
        return name in self._facts.declared or name in self._facts.parameters

    def _memory(self, span: Span) -> set[str]:
        """Return a name that every region uses, if an expression reads memory: it stays after what is before it."""
        if self._on.reads_memory(span) or not self._names_locals(span):
            return self._open.names if self._open is not None else set()
        return set()

    def _names_locals(self, span: Span) -> bool:
        """Return whether an expression depends on arguments, the block and variables of the function only."""
        known = {"blockIdx", "blockDim", "gridDim", *self._on.names(self._function.template), "true", "false"}
        return all(
            name in known or self._is_known(name) or name in PURE or _CONSTANT.fullmatch(name)
            for name in self._on.names(span)
        )

    def _split_variable(self, variable: Variable, around: Around) -> None:
        if variable.name in self._facts.uniform:
            text = f"{self.flat(variable.specifiers)} {self.flat(variable.declarator)};"
            replaced = []
            if variable.initial is not None and self._facts.finder.find(variable.initial):
                replaced = self._take_calls(variable.initial, around)
                text = f"{self.flat(variable.specifiers)} {self.flat(variable.declarator, replaced)};"
            names = set() if variable.initial is None else self._memory(variable.initial)
            return self._add_before(text, names)
        if self._is_computable(variable):
            self._declare(variable.name, variable, is_computed=True)
            return None
        if variable.initial is not None:
            self._check_leaf(variable.initial)
        if variable.at in self._gathered and variable.initial is not None:
            replaced = self._take_calls(variable.initial, around)
            number = self._gather(variable.initial, self.flat(variable.initial, replaced), around)
            local = self._declare(variable.name, variable, is_computed=False)
            local.regions = set(ALWAYS)
            local.number = number
            return None
        replaced = self._take_calls(variable.declarator, around)
        region = self._region(around)
        names = self._names(variable.declarator) | self._on.names(variable.specifiers)
        region.names |= names
        self._use(names - {variable.name}, region)
        local = self._declare(variable.name, variable, is_computed=False)
        local.regions.add(region.number)
        if variable.name in self._facts.pointed:
            local.regions.update(ALWAYS)  # a pointer to it may live longer than the region
        self._items.insert(self._items.index(region), local)
        region.pieces.append((self._on.tokens[variable.at].line, local))
        self._replaced[local.number] = replaced
        return None

    def _is_computable(self, variable: Variable) -> bool:
        """Return whether a variable's value can be computed again wherever it is used."""
        on, facts = self._on, self._facts
        if variable.name in facts.groups:
            return True
        if variable.name in facts.changed or variable.initial is None or variable.sizes[0] < variable.sizes[1]:
            return False
        initial = variable.initial
        if on.text(initial[0]) == "[":
            if facts.reach.waits(facts.reach.list_names(*initial)):
                raise Unsplit(f"an operation that waits in a lambda, line {on.tokens[variable.at].line}")
            return True
        if facts.finder.find(initial) or on.takes_address(initial) or any(on.text(i) == "{" for i in on.words(initial)):
            return False
        if on.reads_memory(initial) and not variable.is_reference:
            return False
        for i in on.words(initial):
            if on.tokens[i].kind != "name" or on.text(before(on.tokens, i)) in (".", "->"):
                continue
            name = on.text(i)
            if on.is_call(i) and not on.is_pure_call(i):
                return False
            local = self._scope.get(name)
            if local is not None and not local.is_computed:
                return False
            if name in facts.changed and local is None and not self._is_counter(name):
                return False
        return True

    def _is_counter(self, name: str) -> bool:
        """Return whether a variable is changed only where a loop for the whole block goes on."""
        steps = [node.step for node in self._facts.root.walk() if node.kind == "for" and self._facts.calls(node)]
        places = self._facts.changed.get(name, ())
        inner = [
            node for node in self._facts.root.walk() if node.kind in ("for", "block") and not self._facts.calls(node)
        ]
        return name in self._facts.uniform and all(
            any(start <= at < end for start, end in steps) or any(node.start <= at < node.end for node in inner)
            for at in places
        )

    def _gather(self, span: Span, text: str, around: Around) -> int:
        """Make a variable of every thread by a region of its own."""
        self._close()
        region = self._add(around, span, f"return {text}; ")
        region.begin = f"auto hc_v{region.number} = hc.gather"
        self._close()
        return region.number

    def _take_calls(self, span: Span, around: Around) -> list[tuple[Span, str]]:
        """Let the threads give what calls need, and wait; return what is in their places afterwards."""
        calls = self._facts.finder.find(span)
        if not calls:
            return []
        line = self._on.tokens[calls[0].start].line
        if any(self._is_in_braces(span, call) for call in calls):
            raise Unsplit(f"an operation that waits in a lambda, line {line}")
        if self._on.has_choice(span, [call.span for call in calls]):
            raise Unsplit(
                f"an operation that waits in a part of an expression that is not always computed, line {line}"
            )
        return [(call.span, self._take_call(call, around)) for call in calls]

    def _is_in_braces(self, span: Span, call: Call) -> bool:
        return any(
            self._on.text(i) == "{" and closing(self._on.tokens, i) > call.start for i in range(span[0], call.start)
        )

    def _take_call(self, call: Call, around: Around) -> str:
        line = self._on.tokens[call.start].line
        if call.waits_for == BLOCK and around.is_divergent:
            raise Unsplit(f"a barrier that only some threads may reach, line {line}")
        if self._on.has_changes(call.arguments):
            raise Unsplit(f"an argument with a side effect, line {line}")
        if call.kind == "function":
            return self._take_function(call, around)
        inner = self._take_calls(call.arguments, around)
        arguments = self.flat(call.arguments, inner)
        number = next(self._numbers)
        if call.kind == "vote":
            self._add_before(f"int hc_n{number} = 0;")
            give, take = _VOTES[call.name]
            self._add(around, call.arguments, f"hc_n{number} += {give.format(arguments)}; ")
            self._meet(around)
            return take.format(f"hc_n{number}")
        if call.kind == "barrier":
            raise Unsplit(f"a barrier in an expression, line {line}")
        parts = [self.flat(span, inner).strip() for span in self._on.split_arguments(call.arguments)]
        if call.name in SHUFFLES and len(parts) in (3, 4):
            return self._take_shuffle(call, parts, number, around)
        text = self.flat((call.start, call.arguments[0])) + arguments + ")"
        self._add_before(f"::host_cuda::Exchange hc_x{number}(hc);")
        self._add(around, call.span, f"hc_x{number}.give(); (void)({text}); ")
        self._meet(around)
        return f"(hc_x{number}.take(), {text})"

    def _take_shuffle(self, call: Call, parts: list[str], number: int, around: Around) -> str:
        mask, value, other, *width = parts
        masked = "true" if self._is_masked or around.is_divergent else "false"
        self._add_before(f"::host_cuda::Shuffle hc_x{number}(hc, {masked});")
        self._add(around, call.arguments, f"hc_x{number}.give<{masked}>(hc_i, {value}); ")
        self._meet(around)
        kind = f"std::decay_t<decltype({value})>"
        source = SHUFFLES[call.name]
        rest = f"{mask}, {other}, {width[0] if width else 32}, {{__builtin_FILE(), __builtin_LINE()}})"
        spans = self._on.split_arguments(call.arguments)
        if all(self._facts.is_uniform(span) and not self._facts.finder.find(span) for span in (spans[0], *spans[2:])):
            self._items.append(f"hc_x{number}.take_all<{source}>({rest};")
            return f"hc_x{number}.taken<{kind}>(hc_i)"
        return f"hc_x{number}.take<{kind}, {source}>(hc_i, {rest}"

    def _take_function(self, call: Call, around: Around) -> str:
        function, on = call.function, self._on
        assert function is not None
        spans = on.split_arguments(call.arguments)
        line = on.tokens[call.start].line
        if not function.text or function.end > call.start or len(spans) != len(function.parameters):
            raise Unsplit(f"a call of {call.name}, which is not split, line {line}")
        if around.is_divergent and function.waits_for == BLOCK:
            raise Unsplit(f"a barrier that only some threads may reach, line {line}")
        passed = []
        for parameter, span in zip(function.parameters, spans, strict=True):
            if parameter.name in function.uniform:
                if not self._facts.is_uniform(span) or self._facts.finder.find(span):
                    raise Unsplit(f"{call.name} waits as often as {parameter.name} says, line {line}")
                passed.append(self.flat(span))
                continue
            inner = self._take_calls(span, around)
            text = self.flat(span, inner)
            kind = held_type(on, function, parameter, self._explicit(call))
            if parameter.is_reference:
                text = f"&({text})"
            number = self._gather(span, f"({kind})({text})" if kind else f"({text})", around)
            passed.append(f"hc_v{number}")
        self._close()
        callee = self.flat((call.start, call.arguments[0] - 1)).rstrip()
        masked = self._is_masked or around.is_divergent
        callee = callee.replace(call.name, name_split(call.name, is_masked=masked), 1)
        made = f"{callee}({', '.join(['hc', self._level(around.depth), *passed])})"
        if read_result(on, function.result) == "void":
            self._items.append(f"{made};")
            return ""
        number = next(self._numbers)
        self._items.append(f"auto hc_r{number} = {made};")
        return f"hc_r{number}[hc_i]"

    def _explicit(self, call: Call) -> list[str]:
        """Return the template's arguments that a call names."""
        on, bracket = self._on, call.arguments[0] - 1
        at = next(i for i in range(call.start, bracket) if on.text(i) == call.name)
        words = on.words((at + 1, bracket))
        return [self.flat(span) for span in on.split_arguments((words[0] + 1, words[-1]))] if words else []
