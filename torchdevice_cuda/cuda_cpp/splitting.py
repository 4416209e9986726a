"""Split kernels at their barriers: each stretch between two barriers becomes a loop over the threads of the block.

What all threads do alike (`uniformity`) is done once for the block: loops and conditions around barriers, and variables
that do not depend on the thread. Where threads of a warp exchange values in code that only some of them reach, a thread
has a level, and a loop leaves out those whose level is lower (``include/host_cuda/loops.h``). A variable that two loops
use is an array with an element per thread, unless its value is cheaply computed again.

A function that cannot be split raises `Unsplit` with the reason; its threads are fibers then.
"""

from __future__ import annotations

import dataclasses

from .exchanges import Exchanges
from .expressions import Span
from .functions import name_split, read_result, write_held
from .lockstep import STEP
from .regions import Around
from .statements import Node
from .tokens import before
from .uniformity import Uniformity, Unsplit


class Splitter(Exchanges):
    """Divide the statements of a function."""

    def __init__(self, facts: Uniformity, texts: list[str], *, is_masked: bool) -> None:
        super().__init__(facts, texts)
        self._is_masked = is_masked or self._has_lonely_return()

    def write(self) -> str:
        """Return the statements of the split function."""
        while True:
            self._begin()
            self._split(self._facts.root.children, Around())
            again = {
                local.variable.at
                for local in self._locals
                if local.is_stored and local.variable is not None and local.variable.is_auto
            } - self._gathered
            if not again:
                return self._render()
            self._gathered |= again

    def _has_lonely_return(self) -> bool:
        """Return whether threads may end before others."""

        def search(nodes: list[Node], divergent: bool) -> bool:
            for node in nodes:
                if self._facts.is_structural(node, divergent=divergent):
                    if search(node.children, divergent or not self._facts.is_alike(node)):
                        return True
                elif (divergent or node.kind != "return") and list(self._facts.list_escapes(node, ("return",))):
                    return True
            return False

        return search(self._facts.root.children, False)

    def _split(self, nodes: list[Node], around: Around) -> None:
        outer = dict(self._scope)
        for node in nodes:
            self._split_one(node, around)
        self._scope = outer

    def _split_one(self, node: Node, around: Around) -> None:
        span = (node.start, node.end)
        if node.kind in ("shared", "meta"):
            self._add_before(self.flat(span))
        elif node.kind == "declare":
            for variable in node.variables:
                self._split_variable(variable, around)
        elif self._facts.is_structural(node, divergent=around.is_divergent):
            getattr(self, f"_split_{node.kind}")(node, around)
        elif node.kind == "express":
            self._split_expression(node, around)
        elif node.kind in ("return", "break", "continue") and not around.is_divergent:
            self._leave_together(node, around)
        elif node.kind != "empty":
            self._add_leaf(node, around)

    def _leave_together(self, node: Node, around: Around) -> None:
        if node.kind == "return" and not self._function.is_kernel:
            self._add_leaf(node, around)
            self._close()
            self._items.append("return hc_result;" if self._returns() else "return;")
        else:
            self._close()
            self._items.append(f"{node.kind};")

    def _add_leaf(self, node: Node, around: Around) -> None:
        """Add a statement without barriers; threads that leave what is around it get another level."""
        self._check_leaf((node.start, node.end))
        for inner in node.walk():
            waits = self._facts.calls(inner) and node.kind != "return"
            leaves = inner.kind == "switch" and self._on.names((inner.start, inner.end)) & {"return", "continue"}
            if waits or leaves:
                raise Unsplit(f"a barrier or a return in a {inner.kind}, line {self._on.tokens[inner.start].line}")
        replaced = []
        for escape in self._facts.list_escapes(node):
            if escape.kind == "return":
                text = "hc.leave(hc_i, -1);"
                value = (escape.start + 1, escape.end - 1)
                calls = self._facts.finder.find(value)
                if calls and escape is not node:
                    raise Unsplit(f"a function that waits in a return, line {self._on.tokens[escape.start].line}")
                if not self._function.is_kernel:
                    taken = self._take_calls(value, around)
                    # Nothing follows the last statement, which no thread has to leave.
                    text = "" if node is self._facts.root.children[-1] else "hc.leave(hc_i, hc_d);"
                    if self._returns():
                        text = f"::host_cuda::store(hc_result[hc_i], hc_result_t({self.flat(value, taken)})); {text}"
            else:
                if around.loop < 0:
                    raise Unsplit(f"a {escape.kind} of some threads, line {self._on.tokens[escape.start].line}")
                text = f"hc.enter(hc_i, {self._level(around.loop + (escape.kind == 'continue'))});"
            replaced.append(((escape.start, escape.end), f"{{ {text} return; }}"))
        region = self._add(around, (node.start, node.end), self._text((node.start, node.end), replaced) + " ")
        if node.kind == "if" and self._asks_for_one(node.condition):
            region.is_down = True

    def _asks_for_one(self, span: Span) -> bool:
        """Return whether a condition may select one thread, which writes what the others have just read."""
        on = self._on
        return any(
            on.text(i) == "=" == on.text(i + 1) or (on.text(i) == "!" and on.text(i + 1) != "=") for i in range(*span)
        )

    def _split_expression(self, node: Node, around: Around) -> None:
        span = (node.start, node.end)
        calls = self._facts.finder.find(span)
        if len(calls) == 1 and calls[0].kind == "barrier" and calls[0].end >= before(self._on.tokens, node.end - 1):
            return self._close() if calls[0].name == STEP else self._meet(around)
        found = self._on.find_assignment(span)
        if found is not None and found[0] in self._facts.uniform and not calls and self._is_known(found[0]):
            return self._add_before(self.flat(span), {found[0]} | self._memory(found[1]))
        self._check_leaf(span)
        replaced = self._take_calls(span, around)
        if len(replaced) == 1 and replaced[0][1] == "":
            return None
        self._add(around, span, self._text(span, replaced) + " ")
        return None

    def _check_divergent(self, node: Node) -> None:
        if self._facts.waits_for_block(node):
            line = self._on.tokens[node.start].line
            raise Unsplit(f"a barrier in a condition or loop that threads may go through differently, line {line}")

    def _split_block(self, node: Node, around: Around) -> None:
        self._close()
        self._items.append("{")
        self._split(node.children, around)
        self._close()
        self._items.append("}")

    def _split_if(self, node: Node, around: Around) -> None:
        if not around.is_divergent and self._facts.is_alike(node):
            replaced = self._take_calls(node.condition, around)
            self._close()
            is_constant = "constexpr" in self._text((node.start, node.condition[0]))
            self._items.append(f"if {'constexpr ' * is_constant}({self.flat(node.condition, replaced)}) {{")
            self._split([node.children[0]], around)
            self._close()
            self._items.append("}")
            if len(node.children) > 1:
                self._items.append("else {")
                self._split([node.children[1]], around)
                self._close()
                self._items.append("}")
            return
        self._check_divergent(node)
        replaced = self._take_calls(node.condition, around)
        self._close()
        number, inside = next(self._numbers), self._level(around.depth + 1)
        self._items.append(f"{{ ::host_cuda::Each<bool> hc_c{number}(hc);")
        text = f"hc_c{number}[hc_i] = bool({self.flat(node.condition, replaced)}); "
        self._add(around, node.condition, f"{text}if (hc_c{number}[hc_i]) hc.enter(hc_i, {inside}); ")
        self._close()
        for i, child in enumerate(node.children):
            if i:
                self._add(around, (child.start, child.start), f"if (!hc_c{number}[hc_i]) hc.enter(hc_i, {inside}); ")
                self._close()
            self._items.append(f"if (const ::host_cuda::Inside hc_in{{hc, {inside}}}) {{")
            self._split([child], dataclasses.replace(around, depth=around.depth + 1, is_divergent=True))
            self._close()
            self._items.append(f"hc.move({inside}, {self._level(around.depth)}); }}")
        self._items.append("}")

    def _split_while(self, node: Node, around: Around) -> None:
        self._split_loop(node, around)

    def _split_do(self, node: Node, around: Around) -> None:
        self._split_loop(node, around)

    def _split_for(self, node: Node, around: Around) -> None:
        self._split_loop(node, around)

    def _split_range(self, node: Node, around: Around) -> None:
        raise Unsplit(f"a barrier in a loop over a range, line {self._on.tokens[node.start].line}")

    def _split_loop(self, node: Node, around: Around) -> None:
        outer = dict(self._scope)
        self._close()
        self._items.append("{")
        is_alike = not around.is_divergent and self._facts.is_alike(node)
        if not is_alike:
            self._check_divergent(node)
        if node.initial is not None:
            self._split_step((node.initial.start, node.initial.end - 1), node.initial, around)
        self._close()
        if is_alike:
            self._write_common_loop(node, around)
        else:
            self._write_divergent_loop(node, around)
        self._close()
        self._items.append("}")
        self._scope = outer

    def _split_step(self, span: Span, node: Node | None, around: Around) -> None:
        """Add what a loop does at its begin or after each turn."""
        if node is not None and node.kind == "declare":
            for variable in node.variables:
                self._split_variable(variable, around)
            return
        for part in self._on.split_arguments(span):
            found = self._on.find_assignment(part)
            if found is not None and found[0] in self._facts.uniform and self._is_known(found[0]):
                self._add_before(self.flat(part) + ";", {found[0]} | self._memory(found[1]))
            else:
                self._check_leaf(part)
                replaced = self._take_calls(part, around)
                self._add(around, part, self.flat(part, replaced) + "; ")

    def _write_common_loop(self, node: Node, around: Around) -> None:
        """Write a loop that the block goes through as a whole."""
        body = dataclasses.replace(around, loop=-1)
        goes_on = any(
            escape.kind == "continue"
            for child in node.children
            for escape in self._facts.list_escapes(child, ("continue",))
        )
        # Where all threads continue, the step is a lambda's or a loop's own; a step of each thread cannot be there.
        steps = self._on.split_arguments(node.step) if node.kind == "for" else []
        common = [part for part in steps if self._is_common_step(part)]
        calls = self._facts.finder.find(node.condition)
        if goes_on and (len(common) != len(steps) or (calls and node.kind == "do")):
            raise Unsplit(f"a continue in a loop, line {self._on.tokens[node.start].line}")
        condition = self.flat(node.condition).strip() or "true"
        if goes_on or not calls:
            if node.kind == "do":
                self._items.append("do {")
            else:
                self._items.append(f"for (; {'' if calls else condition}; {', '.join(map(self.flat, common))}) {{")
        else:
            self._items.append("for (;;) {")
        if calls and node.kind != "do":
            self._write_exit(node, around)
        self._split(node.children, body)
        self._close()
        for part in steps:
            if part not in common or (calls and not goes_on):
                self._split_step(part, None, around)
        if calls and node.kind == "do":
            self._write_exit(node, around)
        self._close()
        self._items.append(f"}} while ({condition});" if node.kind == "do" and not calls else "}")

    def _write_exit(self, node: Node, around: Around) -> None:
        replaced = self._take_calls(node.condition, around)
        self._close()
        self._items.append(f"if (!({self.flat(node.condition, replaced)})) break;")

    def _is_common_step(self, span: Span) -> bool:
        found = self._on.find_assignment(span)
        return found is not None and found[0] in self._facts.uniform and self._is_known(found[0])

    def _write_divergent_loop(self, node: Node, around: Around) -> None:
        """Write a loop that threads leave one by one; it ends when all have left."""
        depth = around.depth
        outside, waiting, inside = (self._level(depth + i) for i in range(3))
        at_loop = dataclasses.replace(around, depth=depth + 1, is_divergent=True)
        in_body = dataclasses.replace(around, depth=depth + 2, is_divergent=True, loop=depth)
        self._items.append(f"hc.move({outside}, {waiting}); for (;;) {{")

        def write_condition() -> None:
            if self._on.words(node.condition):
                replaced = self._take_calls(node.condition, at_loop)
                text = f"if (!({self.flat(node.condition, replaced)})) hc.enter(hc_i, {outside}); "
                self._add(at_loop, node.condition, text)
                self._close()
            self._items.append(f"if (!hc.any({waiting})) break;")

        if node.kind != "do":
            write_condition()
        self._items.append(f"hc.move({waiting}, {inside});")
        self._split(node.children, in_body)
        self._close()
        self._items.append(f"hc.move({inside}, {waiting});")
        if node.kind == "for":
            self._split_step(node.step, None, at_loop)
            self._close()
        if node.kind == "do":
            write_condition()
        self._items.append("}")


_BEGIN = (
    "const uint3 blockIdx = hc.worker.block; const dim3 blockDim = hc.n, gridDim = hc.worker.launch->grid; "
    "(void)blockIdx; (void)blockDim; (void)gridDim; "
)


def write_kernel(facts: Uniformity, texts: list[str]) -> str:
    """Return a kernel's body, with its braces."""
    return (
        f"{{ ::host_cuda::Loops hc(*::host_cuda::worker); {_BEGIN}{Splitter(facts, texts, is_masked=False).write()} }}"
    )


def write_function(facts: Uniformity, texts: list[str]) -> str:
    """Return a device function for the threads of a block, to be written after the original.

    There are two: for calls that all threads make, and for calls where some have ended or are elsewhere.
    """
    if not read_result(facts.on, facts.function.result):
        raise Unsplit(f"the type that {facts.function.name} returns is deduced")
    return _write_function(facts, texts, is_masked=False) + _write_function(facts, texts, is_masked=True)


def _write_function(facts: Uniformity, texts: list[str], *, is_masked: bool) -> str:
    function, on = facts.function, facts.on
    splitter = Splitter(facts, texts, is_masked=is_masked)
    body = splitter.write()
    parameters = ["::host_cuda::Loops& hc", "const int hc_d"]
    for parameter in function.parameters:
        if parameter.name in function.uniform:
            parameters.append(f"{splitter.flat(parameter.type)} {parameter.name}{'[]' * parameter.is_array}")
        else:
            number = splitter.parameters[parameter.name]
            parameters.append(f"const ::host_cuda::Each<{write_held(on, parameter)}>& hc_v{number}")
    begin, kind, end, result = _BEGIN, "void", "", read_result(on, function.result)
    if result != "void":
        kind, end = f"::host_cuda::Each<{result}>", " return hc_result; "
        begin += f"using hc_result_t = {result}; ::host_cuda::Each<hc_result_t> hc_result(hc); "
    name = name_split(function.name, is_masked=is_masked)
    head = f"{splitter.flat(function.template)} static inline {kind} {name}({', '.join(parameters)})"
    return f" {head} {{ {begin}const ::host_cuda::Call hc_call(hc, hc_d); {body}{end}}}"
