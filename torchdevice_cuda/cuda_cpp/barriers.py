"""Choose how the threads of each kernel with barriers run: as loops if it can be split, else as fibers."""

from __future__ import annotations

import dataclasses

from . import splitting
from .expressions import Expressions
from .functions import BLOCK, WARP, Function, Kernel, read_function
from .plain import Reach
from .statements import NotParsed, Parser, declare_counters
from .tokens import Token
from .uniformity import Uniformity, Unsplit


@dataclasses.dataclass
class Choice:
    """What became of a kernel with barriers: its new body, or the reason why it has none."""

    name: str
    line: int
    body: str
    reason: str

    def describe(self) -> str:
        """Return one line for the user."""
        how = f"fibers: {self.reason}" if self.reason else "loops"
        return f"kernel {self.name} (line {self.line}): its threads are {how}"


class Kernels:
    """The kernels of a source, split where that is possible."""

    def __init__(self, tokens: list[Token], texts: list[str], reach: Reach) -> None:
        self._on = Expressions(tokens)
        self._texts = texts
        self._reach = reach
        self._reasons: dict[str, str] = {}
        self._functions: dict[str, Function] = {}
        self._is_ready = False

    def waits(self, kernel: Kernel) -> bool:
        """Return whether threads of a kernel may wait for each other."""
        return self._reach.waits(self._reach.list_names(kernel.body, kernel.end))

    def choose(self, kernel: Kernel) -> Choice:
        """Split a kernel, or say why it cannot be."""
        if not self._is_ready:
            self._is_ready = True
            self._split_functions()
        body, reason = "", ""
        function = read_function(self._on, kernel.name, kernel.body, is_kernel=True)
        try:
            if function is None:
                raise Unsplit("its head is not understood")
            body = splitting.write_kernel(self._read(function), self._texts)
        except (Unsplit, NotParsed) as error:
            reason = str(error)
        return Choice(kernel.name, self._on.tokens[kernel.start].line, body, reason)

    def write_functions(self) -> None:
        """Add the split functions after the originals."""
        for function in self._functions.values():
            if function.text:
                self._texts[function.end] += function.text

    def _read(self, function: Function) -> Uniformity:
        root = Parser(self._on.tokens).parse_body(function.body, function.end)
        declare_counters(root, self._on.tokens, self._texts)
        return Uniformity(self._on, function, root, self._reach, self._functions)

    def _split_functions(self) -> None:
        defined = [name for name, _, _ in self._reach.list_functions()]
        for name, body, end in self._reach.list_functions():
            if not self._reach.waits(self._reach.list_names(body, end)):
                continue
            function = read_function(self._on, name, body)
            if function is None:
                continue
            names = self._reach.list_names(body, end)
            known = self._functions.values()
            waits_for_block = any(word.startswith("__syncthreads") or word == ".sync" for word in names) or any(
                other.name in names and other.waits_for == BLOCK for other in known
            )
            function.waits_for = BLOCK if waits_for_block else WARP
            if defined.count(name) == 1:
                try:
                    function.text = splitting.write_function(self._read(function), self._texts)
                except (Unsplit, NotParsed) as error:
                    self._reasons[name] = str(error)
            self._functions[name] = function
