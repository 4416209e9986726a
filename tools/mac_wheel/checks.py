"""The checks: each compares one thing that our code believes of a Mac with what the wheels say."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import texts
from ours import Use
from torch_facts import TorchFacts
from wheels import Wheel

#: Sections of the list of reviewed texts.
REFUSALS, BETWEEN, DOUBLE, OPERATORS = "refusals", "said in between", "the double's words", "operators"


@dataclasses.dataclass
class Result:
    """The result of a check: its subject, the number of its items, and the faults."""

    check: str
    subject: str
    looked_at: int
    wrong: list[str]

    @property
    def verdict(self) -> str:
        """Return the result in one word."""
        # A check that found nothing to look at has not checked anything.
        return "FAILED" if self.wrong or not self.looked_at else "ok"


def python_files(wheel: Wheel, installed: Path) -> Result:
    """Check that the Python files of a wheel for macOS are those of the installed torch."""
    wrong, names = [], [name for top in ("torch/", "torchgen/", "functorch/") for name in wheel.matching(top, ".py")]
    for name in names:
        here = installed / name
        if name == "torch/version.py":
            continue
        if not here.exists():
            wrong.append(f"{name} is not here")
        elif here.read_bytes() != wheel.bytes(name):
            wrong.append(f"{name} differs")
    return Result("Python files are Linux's", str(wheel), len(names), wrong)


def torch_c(facts: TorchFacts, uses: Iterable[Use], may_lack: Collection[str]) -> Result:
    """Check that the functions of torch._C that we name exist and take our arguments."""
    stubs = {
        node.name: len(node.args.args)
        for node in ast.walk(ast.parse(facts.python["torch/_C/__init__.pyi"]))
        if isinstance(node, ast.FunctionDef)
    }
    wrong, looked_at = [], set()
    for use in uses:
        looked_at.add(use.name)
        takes = facts.arguments.get(use.name)
        takes = stubs.get(use.name) if takes is None else takes
        if use.name not in facts.texts:
            if f"torch._C.{use.name}" not in may_lack:
                wrong.append(f"{use.name} is not there ({use.where})")
        elif use.arguments is not None and takes is not None and use.arguments + len(use.keywords) != takes:
            wrong.append(f"{use.name} takes {takes} arguments ({use.where})")
    return Result("torch._C has what we name", facts.name, len(looked_at), wrong)


def torch_mps(facts: TorchFacts, uses: Iterable[Use], may_lack: Collection[str]) -> Result:
    """Check that the names of torch.mps that we use exist and take the keywords that we pass."""
    signatures = _signatures({name: text for name, text in facts.python.items() if name.endswith(".py")})
    wrong, looked_at = [], set()
    for use in uses:
        name = use.name.removeprefix("torch.")
        looked_at.add(name)
        if name not in signatures:
            if use.name not in may_lack:
                wrong.append(f"{use.name} is not there ({use.where})")
        elif not set(use.keywords) <= signatures[name]:
            wrong.append(f"{use.name} does not take {', '.join(use.keywords)} ({use.where})")
    return Result("torch.mps has what we name", facts.name, len(looked_at), wrong)


def _signatures(files: Mapping[str, str]) -> dict[str, set[str]]:
    """Every name that files of one package define at their top or in classes, by dots, and the arguments' names."""
    found: dict[str, set[str]] = {}

    def enter(prefix: str, body: Sequence[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                found.setdefault(f"{prefix}.{node.name}", set()).update(argument.arg for argument in arguments)
                if node.name == "__init__":
                    found[prefix] |= {argument.arg for argument in arguments}
            elif isinstance(node, ast.ClassDef):
                found.setdefault(f"{prefix}.{node.name}", set())
                enter(f"{prefix}.{node.name}", node.body)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update({f"{prefix}.{target.id}": set() for target in targets if isinstance(target, ast.Name)})
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    # A name of a module beside it is that name here, too; modules come first in `files`.
                    there = f"{prefix}.{node.module}.{alias.name}"
                    inside = {key: value for key, value in found.items() if key.startswith(there)}
                    found.update({key.replace(there, f"{prefix}.{alias.name}"): value for key, value in inside.items()})

    for name in sorted(files, key=lambda name: name.rpartition("/")[2].startswith("__init__")):
        module = name.removeprefix("torch/").rpartition(".")[0].removesuffix("/__init__").replace("/", ".")
        found.setdefault(module, set())
        enter(module, ast.parse(files[name]).body)
    return found


def operators(facts: TorchFacts, known: Mapping[str, str]) -> list[Result]:
    """Check that the operators with a kernel are those of our table."""
    results = []
    for key in sorted(facts.in_our_table.keys() | facts.registered.keys()):
        there, ours = facts.registered.get(key, set()), facts.in_our_table.get(key, set())
        if there or ours:
            extra = [name for name in sorted(there - ours) if f"{key} {name}" not in known]
            wrong = [f"{name} has a kernel and none in our table" for name in extra]
            wrong += [f"{name} has a kernel in our table only" for name in sorted(ours - there)]
            results.append(Result(f"operators with a kernel of {key}", facts.name, len(there), wrong))
    return results


def refusals_said(
    every: Sequence[TorchFacts], patterns: Sequence[re.Pattern[str]], between: Mapping[str, str]
) -> Result:
    """Check that a supported release contains each refusal of our table; ``between`` lists releases in between."""
    wrong = []
    for words in patterns:
        stale = texts.unsaid(words.pattern, [(facts.of_mps, facts.texts) for facts in every])
        for choice in stale:
            named = words.pattern if choice == words.pattern else f"{choice} of {words.pattern}"
            if texts.plain(named) not in between:
                wrong.append(f"no release says {named}")
    return Result("refusals that we know are said", "every torch", len(patterns), wrong)


def refusals_known(facts: TorchFacts, patterns: Sequence[re.Pattern[str]], known: Mapping[str, str]) -> Result:
    """Check that each text that looks like a refusal is in our table or reviewed."""
    wrong = [f"{text!r} ({facts.of_mps[text][0]})" for text in texts.unmatched(facts.of_mps, patterns, known)]
    return Result("refusals that are said we know", facts.name, len(texts.refusal_like(facts.of_mps)), wrong)


def words_of_the_double(facts: TorchFacts, uses: Sequence[Use], known: Mapping[str, str]) -> Result:
    """Check that the emulated GPU's messages are those of this release."""
    wrong = []
    for use in uses:
        if texts.plain(use.name) not in known and not any(use.name in text for text in facts.texts):
            wrong.append(f"{use.name!r} ({use.where})")
    return Result("the double's words are torch's", facts.name, len(uses), wrong)


@dataclasses.dataclass(frozen=True)
class Pin:
    """Something of torch's that the double or a driver copies, and the releases that have it."""

    what: str
    why: str
    since: tuple[int, int] = (2, 6)
    until: tuple[int, int] = (99, 0)
    text: bool = False


#: Names are of functions, as the compiler writes them, without what follows; texts are whole.
PINS = (
    Pin("__ZN2at3mps8MPSEvent14waitForCpuSyncEv", "elapsed times wait for a flag that they consume", until=(2, 14)),
    Pin("__ZN2at3mps8MPSEvent13waitForTimingEv", "elapsed times are kept with the recording", since=(2, 15)),
    Pin("__ZN2at3mps12MPSEventPool11elapsedTimeEjj", "elapsed times are asked of pairs of events"),
    Pin("____ZN2at3mps8MPSEvent6recordEbb_block_invoke", "recording is left to the queue: a query may come before it"),
    Pin(" was not recorded after start event ", "events in reverse are refused", text=True),
    Pin("Invalid Event ID: ", "events are numbers", text=True),
    Pin("Unaligned blit request", "copies to addresses that are no multiple of four", text=True),
    Pin("Passed CPU tensor to MPS op", "devices are not compared before a kernel runs", text=True),
    Pin("PYTORCH_ENABLE_MPS_FALLBACK", "a variable sends what lacks a kernel to the CPU", text=True),
    Pin("__ZN2at3mps16getIMPSAllocatorEb", "it makes private buffers, unless asked for shared ones", until=(2, 11)),
    Pin("__ZN2at3mps16getIMPSAllocatorEv", "it makes shared buffers only", since=(2, 12)),
    Pin(
        "__ZN2at3mps13HeapAllocator20MPSHeapAllocatorImpl19getHostAliasStorageERKN3c107StorageE",
        "the memory of a shared buffer can be had",
        since=(2, 13),
    ),
    Pin("__ZNK2at3mps8MPSHooks16isOnMacOSorNewerEjj", "what there is depends on the release of macOS"),
)


def pins(facts: TorchFacts) -> Result:
    """Check that the code that the emulated GPU copies is unchanged."""
    wrong = []
    for pin in PINS:
        there = any(pin.what in text for text in facts.of_mps) if pin.text else pin.what in facts.symbols
        if there != (pin.since <= facts.release <= pin.until):
            wrong.append(f"{'has now' if there else 'has no longer'} {pin.what!r}: {pin.why}")
    return Result("what the double copies", facts.name, len(PINS), wrong)


def macos(facts: TorchFacts, least: tuple[int, int]) -> Result:
    """Check that a release needs the macOS that our table has."""
    there, ours = (".".join(map(str, numbers)) for numbers in (facts.macos, least))
    wrong = [] if there == ours else [f"it needs macOS {there}, and our table has {ours}"]
    return Result("the oldest macOS", facts.name, 1, wrong)


def metal(wheel: Wheel, functions: Sequence[Use], selectors: Sequence[Use]) -> Result:
    """pyobjc knows the functions that we call, and what we ask Metal's device for."""
    known = {
        node.value.decode() if isinstance(node.value, bytes) else node.value
        for node in ast.walk(ast.parse(wheel.text("Metal/_metadata.py")))
        if isinstance(node, ast.Constant) and isinstance(node.value, (bytes, str))
    }
    for name in wheel.matching("Metal/", ".so"):
        known |= wheel.library(name).selectors
    uses = [*functions, *selectors]
    wrong = [f"{use.name} is not known ({use.where})" for use in uses if use.name not in known]
    return Result("pyobjc knows what we ask Metal", str(wheel), len(uses), wrong)


def mlx(wheel: Wheel, uses: Sequence[Use]) -> Result:
    """MLX has the functions that we call, and they take the keywords that we give."""
    files = {f"torch/{name}": wheel.text(f"mlx/{name}") for name in _core(wheel)}
    signatures = _signatures(files)
    wrong, looked_at = [], set()
    for use in uses:
        name = f"core.{use.name}"
        looked_at.add(use.name)
        if name not in signatures:
            wrong.append(f"mlx.core.{use.name} is not there ({use.where})")
        elif signatures[name] and not set(use.keywords) <= signatures[name]:
            wrong.append(f"mlx.core.{use.name} does not take {', '.join(use.keywords)} ({use.where})")
    return Result("MLX has what we call", str(wheel), len(looked_at), wrong)


def _core(wheel: Wheel) -> list[str]:
    return [name.removeprefix("mlx/") for name in wheel.matching("mlx/core/", ".pyi")]


def metal_library(wheel: Wheel) -> Result:
    """MLX finds its library for Metal where it looks for it."""
    needed = ("mlx/lib/libmlx.dylib", "mlx/lib/mlx.metallib")
    return Result("MLX has its library", str(wheel), len(needed), [name for name in needed if name not in wheel.files])


def table(results: Sequence[Result]) -> str:
    """Return the results for people: a line each, and below it what is wrong."""
    wide = [max(len(cell) for cell in column) for column in zip(*((r.check, r.subject) for r in results), strict=True)]
    lines = []
    for r in results:
        lines.append(f"{r.check:<{wide[0]}}  {r.subject:<{wide[1]}}  {r.looked_at:>5}  {r.verdict}")
        lines += [f"    {wrong}" for wrong in r.wrong]
    return "\n".join(lines)


def as_json(results: Sequence[Result]) -> str:
    """Return the results for programs."""
    return json.dumps([{**dataclasses.asdict(r), "verdict": r.verdict} for r in results], indent=1) + "\n"
