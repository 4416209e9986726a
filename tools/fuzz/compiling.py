"""Compiled programs against eager ones, on one device: several programs are one compiled function, to save time."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable
from typing import Any

import torch
from comparing import Difference, compare
from program import Step, without
from session import Counts, Session, Settings
from sides import Failed, Observation, Side, settled

#: What is not compiled: shapes that depend on values, Python values, steps about the graph.
_LEFT_OUT = re.compile(
    r"nonzero|argwhere|unique.*|masked_select|getitem mask|bincount|bool|equal|isin|histc|autograd|as_strided"
    r"|view_dtype|no_grad.*|detach in place|new leaf|register_hook|retain_grad|gradient|backward|mode|.*indices"
    r"|searchsorted|bucketize|lstsq"
)
#: Whose results jump: what rounds otherwise before them gives something else.
_JUMPS = re.compile(
    r"(ceil|floor|round|trunc|frac|sign|sgn|signbit|remainder|fmod|floor_divide|eq|ne|lt|le|gt|ge|logical_\w+|isclose"
    r"|operator [<>=!]+|isnan|isinf|isfinite|isneginf|isposinf|isreal|to|max.*|min.*|amax|amin|sort.*|topk.*|msort"
    r"|arg\w+|kthvalue.*|median.*|nanmedian.*|cummax.*|count_nonzero|div|tan|angle|atan2|special.*|digamma|lgamma|logit"
    r"|hardshrink|threshold|clamp|nan_to_num|all|any|copysign|hypot|norm|linalg.vector_norm|where|acosh|cosine.*"
    r"|normalize|cond|rsqrt|copy_|fill_|setitem.*|softshrink)_?"
)
_INPUT = re.compile(r"\b(make|index|permuted|distinct|definite)\(")
#: Programs in a compiled function.
GROUP = 10


@dataclasses.dataclass
class Compilable:
    """A program as a function of its inputs."""

    seed: str
    #: lines that make the inputs
    inputs: dict[str, str]
    steps: list[Step]

    @property
    def gives(self) -> list[str]:
        """List the variables that it returns."""
        return [name for step in self.steps for name in step.gives]

    def print_function(self, name: str) -> str:
        """Print it as a function that returns everything it computes."""
        lines = [f"def {name}({', '.join(self.inputs)}):", *(f"    {step.code}" for step in self.steps)]
        return "\n".join([*lines, f"    return ({''.join(f'{given}, ' for given in self.gives)})"])

    def to_dict(self) -> dict[str, Any]:
        """Make what JSON keeps."""
        return {"seed": self.seed, "inputs": self.inputs, "steps": [step.to_list() for step in self.steps]}

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Compilable:
        """Read what ``to_dict`` made."""
        return cls(kept["seed"], kept["inputs"], [Step.from_list(step) for step in kept["steps"]])

    def make_inputs(self, side: Side) -> list[torch.Tensor]:
        """Make the inputs anew."""
        names = dict(side.start)
        return [eval(code, names) for code in self.inputs.values()]


def set_up() -> None:
    """Have inductor round where eager does: what rounds in between is otherwise not what it is compared with."""
    torch._inductor.config.emulate_precision_casts = True


class Writer(Session):
    """Generates a program on one side alone."""

    def __init__(self, side: Side, settings: Settings) -> None:
        super().__init__(side, side, settings, Counts())

    def write(self, seed: str) -> Compilable:
        """Write the program of a seed; what fails is no part of it."""
        self.generate(seed)
        inputs: dict[str, str] = {}
        steps = []
        for step in self.steps:
            if step.op == "leaf":
                inputs[step.gives[0]] = _resolve(step.code.split(" = ", 1)[1])
            else:
                steps.append(dataclasses.replace(step, code=_hoist(step.code, inputs)))
        used = {name for step in steps for name in re.findall(r"\b[vh]\d+\b", step.code)}
        return Compilable(seed, {name: code for name, code in inputs.items() if name in used}, steps)

    def _propose(self, call: Any, rng: random.Random) -> bool:
        if _LEFT_OUT.fullmatch(call.op) or "out=" in call.code or "lambda" in call.code:
            return False
        if _JUMPS.fullmatch(call.op) and self._is_computed(call.code):
            return False
        return super()._propose(call, rng)

    def _is_computed(self, code: str) -> bool:
        """Tell whether fractions that were computed go into a call; inputs are the same for both."""
        made = {name for step in self.steps if step.op == "leaf" for name in step.gives}
        changed = any(step.writes for step in self.steps)
        names = set(re.findall(r"\bv\d+\b", code))
        tensors = self.reference.tensors
        return any(
            (name not in made or changed) and (tensors[name].is_floating_point() or tensors[name].is_complex())
            for name in names
            if name in tensors
        )

    def _check(self, step: Step, failed: Failed | None, before: Any = None) -> None:
        if failed is None:
            self.steps.append(step)
        elif step.writes:
            # It may have changed something, and the compiled program will not.
            raise _Broken


class _Broken(Exception):
    """Say that this program is of no use."""


def _resolve(code: str) -> str:
    """Make an input without the bit that negates it: torch.compile ignores that, on stock torch too."""
    return f"{code}.resolve_neg()" if "_neg_view" in code or ".imag" in code else code


def _hoist(code: str, inputs: dict[str, str]) -> str:
    """Make inputs of what a line makes by itself."""
    while found := _INPUT.search(code):
        depth, end = 0, found.end() - 1
        while True:
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
            if not depth:
                break
        name = f"h{len(inputs)}"
        inputs[name] = code[found.start() : end]
        code = code[: found.start()] + name + code[end:]
    return code


def write_group(side: Side, settings: Settings, seed: str, numbers: list[int]) -> list[Compilable]:
    """Write several programs."""
    writer = Writer(side, settings)
    made = []
    for number in numbers:
        for attempt in range(5):
            try:
                program = writer.write(f"{seed}/{number}" + (f"/{attempt}" if attempt else ""))
            except _Broken:
                continue
            # A backward pass may be refused: something that it needs was overwritten.
            if program.steps and not isinstance(run(make_function([program], side), [program], side), Failed):
                made.append(program)
                break
    return made


def make_function(programs: list[Compilable], side: Side) -> Callable[..., Any]:
    """Make one function of several programs; its argument is a list of inputs for each."""
    lines = [program.print_function(f"program_{number}") for number, program in enumerate(programs)]
    calls = "".join(f"program_{number}(*inputs[{number}]), " for number in range(len(programs)))
    lines += ["def together(inputs):", f"    return ({calls})"]
    names = dict(side.start)
    exec(compile("\n".join(lines), "<programs>", "exec"), names)
    made: Callable[..., Any] = names["together"]
    return made


def run(function: Callable[..., Any], programs: list[Compilable], side: Side) -> list[dict[str, Observation]] | Failed:
    """Call a function; what each program gave, its gradients, and what became of its inputs."""
    inputs = [program.make_inputs(side) for program in programs]
    # What is written into an input may make it require a gradient; the program did not ask for that one.
    needs = [
        {name for name, value in zip(program.inputs, given, strict=True) if value.requires_grad}
        for program, given in zip(programs, inputs, strict=True)
    ]
    try:
        results = function(inputs)
        values = [
            dict(zip([*program.inputs, *program.gives], [*given, *outs], strict=True))
            for program, given, outs in zip(programs, inputs, results, strict=True)
        ]
        _differentiate(needs, results, values)
    except Exception as error:
        return Failed(type(error).__name__, str(error).strip()[:6000])
    return [{name: _see(value) for name, value in each.items()} for each in values]


def _differentiate(needs: list[set[str]], results: Any, values: list[dict[str, Any]]) -> None:
    """Add gradients to what each program gave; by one backward pass, since one graph may hold all of them."""
    leaves = [(each, name, each[name]) for names, each in zip(needs, values, strict=True) for name in sorted(names)]
    wanted = [out for outs in results for out in outs if isinstance(out, torch.Tensor) and out.requires_grad]
    if not leaves or not wanted:
        return
    ones = [torch.ones_like(out) for out in wanted]
    grads = torch.autograd.grad(wanted, [leaf for _, _, leaf in leaves], ones, allow_unused=True)
    for (each, name, leaf), grad in zip(leaves, grads, strict=True):
        # None and zeros mean the same; a compiled function may give either.
        each[f"gradient of {name}"] = torch.zeros_like(leaf) if grad is None else grad


def _see(value: Any) -> Observation:
    if not isinstance(value, torch.Tensor):
        return Observation(type(value).__name__, values=value)
    return Observation(
        kind="Tensor",
        dtype=str(value.dtype).removeprefix("torch."),
        shape=tuple(value.shape),
        flags=(value.requires_grad,),
        values=settled(value),
    )


def check(programs: list[Compilable], side: Side, is_dynamic: bool) -> list[tuple[Compilable, list[Difference]]]:
    """Compile programs as one function and compare with eager; each that differs, alone if it can be, and in what."""
    torch._dynamo.reset()
    function = make_function(programs, side)
    eager = run(function, programs, side)
    compiled = run(torch.compile(function, dynamic=True if is_dynamic else None), programs, side)
    if isinstance(eager, Failed):
        return []  # a program that was shortened
    if isinstance(compiled, Failed):
        if len(programs) > 1:
            half = len(programs) // 2
            return check(programs[:half], side, is_dynamic) + check(programs[half:], side, is_dynamic)
        return [(programs[0], [Difference("error", "", f"compiled raises {compiled.kind}: {compiled.message}")])]
    step = Step("", "gradient")
    found = []
    for program, expected, got in zip(programs, eager, compiled, strict=True):
        differences = compare(expected, got, step, _Nothing())
        if differences:
            found.append((program, differences))
    if len(programs) > 1:
        # What differs in company has to differ alone, or the company matters.
        return [
            one
            for program, differences in found
            for one in check([program], side, is_dynamic) or [(program, differences)]
        ]
    return found


class _Nothing:
    """Knows no better values."""

    coarsest = None

    def __call__(self, name: str) -> None:
        """Know none."""


def shorten(
    program: Compilable, difference: Difference, side: Side, is_dynamic: bool, tries: int = 40
) -> tuple[Compilable, Difference]:
    """Leave out steps while the program differs in this way; return what is left, and how it differs."""
    again = True
    while again:
        again = False
        for number in range(len(program.steps) - 1, -1, -1):
            steps = without(program.steps, number)
            if not steps or tries <= 0:
                continue
            tries -= 1
            fewer = dataclasses.replace(program, steps=steps)
            alike = [one for _, found in check([fewer], side, is_dynamic) for one in found if _is_of(one, difference)]
            if alike:
                program, difference, again = fewer, alike[0], True
                break
    used = {name for step in program.steps for name in re.findall(r"\b[vh]\d+\b", step.code)}
    inputs = {name: code for name, code in program.inputs.items() if name in used}
    return dataclasses.replace(program, inputs=inputs), difference


def _is_of(one: Difference, other: Difference) -> bool:
    """Tell whether two differences are of one variable and kind: a shorter program may have another fault."""
    is_error = one.field == "error"
    return (one.field, one.name) == (other.field, other.name) and (
        not is_error or one.detail.split(":")[0] == other.detail.split(":")[0]
    )
