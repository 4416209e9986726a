"""The process that executes programs; another watches it, and knows which program it is at."""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def work(options: argparse.Namespace) -> None:
    """Execute one program after another; a line of JSON for each finding, and the counts at the end."""
    import torch

    set_up(options.plant)
    import differentiating  # noqa: F401  (each of these fills the table)
    import networks  # noqa: F401
    import pointwise  # noqa: F401
    import reducing  # noqa: F401
    import shaping  # noqa: F401
    from recording import Recorded, Recording
    from session import Counts, Session, Settings
    from sides import Side

    counts = Counts()
    settings = Settings(
        pair=options.pair,
        dtypes=tuple(options.dtypes.split(",")),
        # Smaller ones, where several are compiled together.
        steps=options.steps if options.what != "compiled" else (options.steps + 1) // 2,
        differentiates=options.what != "operators",
    )
    torch.ones(1, device=options.device)  # without a device, every call of every program would be refused
    reference = Recording(options.record, Side(options.against)) if options.record else Side(options.against)
    if options.what == "compiled":
        compile_programs(options, settings)
        return
    session = Session(reference, Side(options.device), settings, counts)
    at = os.open(options.now, os.O_RDWR | os.O_CREAT)
    until = time.monotonic() + options.seconds
    for number, kept in list_programs(options):
        if time.monotonic() > until:
            break
        os.pwrite(at, f"{number:12d}".encode(), 0)
        session.counts = counts
        if kept is None:
            seed = f"{options.seed}/{number}"
            findings = session.generate(seed)
        else:
            seed, session.reference = kept["seed"], Recorded(kept)
            findings = session.replay(session.reference.steps)
        if options.pair in ("cuda:host", "cpu:cuda"):
            torch.cuda.synchronize()  # what a kernel asserted ends the process here, where the program is known
        if isinstance(reference, Recording):
            reference.write(seed, session.steps)
        if findings:
            say({"finding": report(session, findings[0], seed)})
        if counts.programs % 100 == 0:
            say({"counts": _read(counts)})
    if isinstance(reference, Recording):
        reference.close()
    say({"counts": _read(counts)})


def set_up(plant: str) -> None:
    """Have torch compute as the comparison expects; plant a fault, if one is named."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    faulthandler.enable()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if plant:
        import planting

        planting.plant(plant)


def list_programs(options: argparse.Namespace) -> Iterator[tuple[int, Any]]:
    """Number the programs of this process: of a seed without end, or those of a record."""
    if not options.compare:
        for number in range(options.first, options.last, options.stride):
            yield number, None
        return
    from recording import read

    for kept in read(options.compare):
        number = kept["number"]
        if options.first <= number < options.last and number % options.stride == options.first % options.stride:
            yield number, kept


def list_groups(options: argparse.Namespace, size: int) -> Iterator[tuple[int, list[int]]]:
    """Number the groups of this process, and the programs of each; one program alone, where one is named."""
    if options.only is not None:
        yield options.only // size, [options.only]
        return
    for group in range(options.first, (options.last + size - 1) // size, options.stride):
        yield group, list(range(group * size, min((group + 1) * size, options.last)))


def compile_programs(options: argparse.Namespace, settings: Any) -> None:
    """Compile programs, several at a time, and compare them with eager ones."""
    import compiling
    from explained import explain
    from session import Counts
    from sides import Side
    from torch._dynamo.utils import counters

    counts = Counts()
    side = Side(options.device)
    compiling.set_up()
    at = os.open(options.now, os.O_RDWR | os.O_CREAT)
    until = time.monotonic() + options.seconds
    for group, numbers in list_groups(options, compiling.GROUP):
        if time.monotonic() > until:
            break
        os.pwrite(at, f"{group:12d}".encode(), 0)
        programs = compiling.write_group(side, settings, options.seed, numbers)
        is_dynamic = group % 3 == 2
        for program, differences in compiling.check(programs, side, is_dynamic):
            os.utime(options.now)
            # The operator that a row names is the last one of the short program.
            short, difference = compiling.shorten(program, differences[0], side, is_dynamic)
            reason = explain(short.steps, difference, options.pair)
            if reason is not None:
                counts.explained[reason] += 1
                continue
            text = "\n".join([*(f"{name} = {code}" for name, code in short.inputs.items()), short.print_function("f")])
            what = f"{str(difference)[:2000]} ({'dynamic' if is_dynamic else 'static'} shapes)"
            found = {"seed": program.seed, "op": short.steps[-1].op, "difference": what, "program": text}
            # An error has one step, and values of other variables may be wrong for another reason.
            is_error = difference.field == "error"
            again = {
                "compilable": (short if is_error else program).to_dict(),
                "is dynamic": is_dynamic,
                "found": [vars(one) for one in ([difference] if is_error else differences)],
            }
            say({"finding": {**found, "again": again}})
        counts.programs += len(programs)
        counts.operators += sum(len(program.steps) for program in programs)
        counts.differentiated += sum("requires_grad" in str(program.inputs) for program in programs)
        for program in programs:
            counts.ops.update(step.op for step in program.steps)
        counts.graphs += sum(counters["aot_autograd"].values())
        counters.clear()
        say({"counts": _read(counts)})


def compile_again(program: dict[str, Any]) -> list[dict[str, str]]:
    """Compile a program that was found, on the CPU; list in what it differs from eager."""
    import compiling
    from sides import Side

    compiling.set_up()
    found = compiling.check([compiling.Compilable.from_dict(program["compilable"])], Side("cpu"), program["is dynamic"])
    return [vars(difference) for _, differences in found for difference in differences]


def report(session: Any, finding: Any, seed: str) -> dict[str, Any]:
    """Shrink what was found."""
    from program import print_steps
    from session import Counts
    from shrinking import shrink
    from sides import Side

    session.counts = Counts()

    def remains(steps: list[Any]) -> bool:
        found = session.replay(steps)
        return (
            bool(found) and found[0].difference.field == finding.difference.field and len(found[0].steps) == len(steps)
        )

    steps = list(finding.steps)
    is_steady = remains(steps)
    difference = finding.difference
    if is_steady:
        is_live = isinstance(session.reference, Side)
        steps = shrink(steps, remains, dict(session.reference.tensors) if is_live else None)
        found = session.replay(steps)
        difference = found[0].difference if found else difference
    return {
        "seed": seed,
        "op": steps[-1].op,
        "difference": str(difference),
        "steps": [step.to_list() for step in steps],
        "is steady": is_steady,
        "program": print_steps(steps),
    }


def say(what: dict[str, Any]) -> None:
    """Write a line that the watching process reads."""
    sys.__stdout__.write(json.dumps(what) + "\n")
    sys.__stdout__.flush()


def _read(counts: Any) -> dict[str, Any]:
    return {name: dict(kept) if isinstance(kept, collections.Counter) else kept for name, kept in vars(counts).items()}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    given = json.loads(sys.argv[1])
    if "again" in given:
        set_up(given["plant"])
        say({"differences": compile_again(given["again"])})
    else:
        work(argparse.Namespace(**given))
