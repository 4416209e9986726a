"""Write the loops of a function that is split at its barriers: its regions, and what is between them."""

from __future__ import annotations

import dataclasses
import itertools

from .collectives import SHUFFLES
from .expressions import IDENTITY, Span
from .functions import read_result
from .statements import Variable
from .uniformity import Uniformity, Unsplit

LAMBDA = "[&](const uint3 threadIdx, const size_t hc_i) __attribute__((always_inline)) { (void)threadIdx; (void)hc_i; "
#: The regions of what is stored before all of them.
ALWAYS = (-1, -2)


@dataclasses.dataclass
class Local:
    """A variable of a thread: in which regions it is used."""

    variable: Variable | None  # none for a parameter
    number: int
    is_computed: bool  # again in every region
    regions: set[int] = dataclasses.field(default_factory=set)

    @property
    def is_stored(self) -> bool:
        """Return whether it is an array with an element per thread."""
        return len(self.regions) > 1 and not self.is_computed


@dataclasses.dataclass
class Region:
    """Statements between two barriers."""

    number: int
    depth: int
    is_masked: bool
    scope: dict[str, Local]
    pieces: list[tuple[int, str | Local]] = dataclasses.field(default_factory=list)  # with their lines
    names: set[str] = dataclasses.field(default_factory=set)
    is_down: bool = False
    begin: str = ""  # what the loop is, if no plain one


@dataclasses.dataclass
class Around:
    """What is around the statements that are split."""

    depth: int = 0
    is_divergent: bool = False
    loop: int = -1  # the depth before the innermost loop in which threads go their own ways


class Regions:
    """The regions of a function, in the order in which they run."""

    def __init__(self, facts: Uniformity, texts: list[str]) -> None:
        self._facts = facts
        self._on = facts.on
        self._texts = texts
        self._function = facts.function
        #: Whether threads may have ended before others, or be elsewhere.
        self._is_masked = True
        #: Variables of deduced types that two regions use: each is made by a function of its own.
        self._gathered: set[int] = set()
        self.parameters: dict[str, int] = {}  # the numbers of those that differ between threads

    def _begin(self) -> None:
        self._items: list[str | Region | Local] = []
        self._numbers = itertools.count(1)
        self._locals: list[Local] = []
        self._scope: dict[str, Local] = {}
        self._open: Region | None = None
        self._replaced: dict[int, list[tuple[Span, str]]] = {}
        for parameter in self._function.parameters:
            if parameter.name in self._facts.uniform:
                continue
            if not self._function.is_kernel:
                local = self._declare(parameter.name, None, is_computed=False)
                local.regions = set(ALWAYS)
                self.parameters[parameter.name] = local.number
            elif parameter.name in self._facts.changed and not parameter.is_reference:
                local = self._declare(parameter.name, None, is_computed=False)
                local.regions = set(ALWAYS)
                self._items.append(
                    f"auto hc_v{local.number} = hc.gather<false, false>(0, {LAMBDA}return {parameter.name}; }});"
                )

    def _level(self, depth: int) -> str:
        return str(depth) if self._function.is_kernel else f"hc_d + {depth + 1}"

    def _region(self, around: Around) -> Region:
        if self._open is None:
            masked = self._is_masked or around.is_divergent
            number = next(self._numbers)
            self._open = Region(number, around.depth, masked, dict(self._scope))
            self._items.append(self._open)
        return self._open

    def _close(self) -> None:
        self._open = None

    def _meet(self, around: Around) -> None:
        """End the open region: the threads wait for each other."""
        self._close()
        self._items.append(f"hc.meet({self._level(around.depth)});")

    def _add(self, around: Around, span: Span, text: str) -> Region:
        """Add a statement to the open region."""
        region = self._region(around)
        names = self._names(span)
        region.names |= names
        region.pieces.append((self._on.tokens[span[0]].line, text))
        self._use(names, region)
        return region

    def _names(self, span: Span) -> set[str]:
        """Return the names in a stretch, those of calls that are made for the whole block excepted."""
        names, at = set(), span[0]
        for call in self._facts.finder.find(span):
            if call.kind == "function":
                names |= self._on.names((at, call.start))
                at = call.end
            elif call.name in SHUFFLES:
                names |= self._on.names((at, call.start)) | self._names(call.arguments)
                at = call.end
            elif call.kind == "exchange":
                names.add("__activemask")  # it asks which lane it is, whatever it is called
        return names | self._on.names((at, span[1]))

    def _use(self, names: set[str], region: Region) -> None:
        for name in names:
            local = self._scope.get(name)
            if local is not None and region.number not in local.regions:
                local.regions.add(region.number)
                region.scope[name] = local
                if local.is_computed and local.variable is not None:
                    self._use(self._on.names(local.variable.declarator), region)

    def _add_before(self, text: str, names: set[str] | None = None) -> None:
        """Add something for the whole block before the open region, or after it if that uses the names."""
        if self._open is not None and names is not None and names & self._open.names:
            self._close()
        if self._open is None:
            self._items.append(text)
        else:
            self._items.insert(self._items.index(self._open), text)

    def _declare(self, name: str, variable: Variable | None, *, is_computed: bool) -> Local:
        local = Local(variable, next(self._numbers), is_computed)
        self._locals.append(local)
        self._scope[name] = local
        return local

    def flat(self, span: Span, replaced: list[tuple[Span, str]] | None = None) -> str:
        """Return a stretch in one line, for what is moved or repeated."""
        return self._text(span, replaced, flat=True).replace("\n", " ")

    def _text(self, span: Span, replaced: list[tuple[Span, str]] | None = None, *, flat: bool = False) -> str:
        parts, i = [], span[0]
        flat = flat or not self._function.is_kernel
        changes = {part[0]: (part[1], text) for part, text in replaced or ()}
        while i < span[1]:
            if i in changes:
                i, text = changes[i]
                parts.append(text)
                continue
            token = self._on.tokens[i]
            if token.kind == "space" and flat:
                parts.append(" ")
            else:
                is_index = token.text in IDENTITY
                parts.append(token.text if is_index else self._texts[i])
            i += 1
        return "".join(parts)

    def _render(self) -> str:
        parts = []
        self._line = self._on.tokens[self._function.body].line
        for item in self._items:
            if isinstance(item, str):
                parts.append(f" {item} ")
            elif isinstance(item, Local):
                if item.is_stored:
                    parts.append(f" ::host_cuda::Each<{self._type_of(item)}> hc_v{item.number}(hc); ")
            else:
                parts.append(self._render_region(item))
        return "".join([*parts, self._pad(self._on.tokens[self._function.end].line)])

    def _type_of(self, local: Local) -> str:
        variable = local.variable
        assert variable is not None
        if variable.is_reference:
            raise Unsplit(f"the reference {variable.name} lives across a barrier")
        pointers = self.flat((variable.declarator[0], variable.at))
        return f"{self.flat(variable.specifiers)} {pointers} {self.flat(variable.sizes)}"

    def _render_region(self, region: Region) -> str:
        known = self._facts.reach.asks(region.names | self._names_of_computed(region))
        masks = f"{'true' if region.is_masked else 'false'}, {'true' if known else 'false'}"
        begin = (
            f"{region.begin}<{masks}>" if region.begin else f"hc.each<{masks}, {'true' if region.is_down else 'false'}>"
        )
        parts = [f" {begin}({self._level(region.depth)}, {LAMBDA}"]
        for name, local in sorted(region.scope.items(), key=lambda pair: pair[1].number):
            if region.number not in local.regions or any(piece is local for _, piece in region.pieces):
                continue
            if local.is_computed and local.variable is not None:
                variable = local.variable
                parts.append(f"{self.flat(variable.specifiers)} {self.flat(variable.declarator)}; (void){name}; ")
            elif local.is_stored:
                parts.append(self._bind(name, local))
        for line, piece in region.pieces:
            text = piece if isinstance(piece, str) else self._render_declaration(piece)
            parts.append(self._pad(line) + text)
            self._line += text.count("\n")
        return "".join([*parts, "}); "])

    def _pad(self, line: int) -> str:
        """Return line ends, so that a statement is on its line of the program."""
        missing = line - self._line
        if not self._function.is_kernel or not 0 < missing < 1000:
            return ""
        self._line = line
        return "\n" * missing

    def _names_of_computed(self, region: Region) -> set[str]:
        found: set[str] = set()
        for local in region.scope.values():
            if local.is_computed and local.variable is not None and region.number in local.regions:
                found |= self._on.names(local.variable.declarator) | self._on.names(local.variable.specifiers)
        return found

    def _bind(self, name: str, local: Local) -> str:
        parameter = self._facts.parameters.get(name) if local.variable is None else None
        star = "*" if parameter is not None and parameter.is_reference and not self._function.is_kernel else ""
        return f"auto& {name} = {star}hc_v{local.number}[hc_i]; (void){name}; "

    def _render_declaration(self, local: Local) -> str:
        variable = local.variable
        assert variable is not None
        replaced = self._replaced.get(local.number)
        text = f"{self.flat(variable.specifiers)} {self._text(variable.declarator, replaced)}; "
        if not local.is_stored:
            return text
        stored = ""
        if variable.initial is not None:
            stored = f"{{ {text}::host_cuda::store(hc_v{local.number}[hc_i], {variable.name}); }} "
        return f"{stored}auto& {variable.name} = hc_v{local.number}[hc_i]; "

    def _returns(self) -> bool:
        return read_result(self._on, self._function.result) != "void"
