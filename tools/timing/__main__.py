"""Fit the model of a GPU's times to recordings, and print its errors.

python tools/record record timing        # on the GPU: writes tests/data/timing-h200-2.11.json.xz
python tools/timing fit                  # writes torchdevice_cuda/rehearsal/efficiency.json; needs scipy
python tools/timing errors               # errors by family, each call predicted without its own recording
python tools/timing errors --refit 5     # each fifth of the calls predicted by a fit to the other four
python tools/timing published            # rehearsed training steps, and published measurements of them
python tools/timing kernels              # kernels in CUDA C++ and Triton, launched here, and recorded ones
python tools/timing peaks                # the most memory that recorded steps take, rehearsed here
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import re
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Its own folder is no place for imports: the modules are those of the package `timing`.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path += [str(HERE.parent), str(HERE.parents[1])]

from timing.recorded import Observed, Samples, group, list_observed  # noqa: E402
from torchdevice_cuda.rehearsal.calls import Call  # noqa: E402
from torchdevice_cuda.rehearsal.families import find_cost, name_family  # noqa: E402
from torchdevice_cuda.rehearsal.model import Rates  # noqa: E402
from torchdevice_cuda.rehearsal.prediction import EFFICIENCY, Fitted, predict_work, read_efficiency  # noqa: E402
from torchdevice_cuda.settings import gpus  # noqa: E402

#: The GPU of the recordings.
GPU = "h200"
Error = tuple[str, float]  # the operator, and predicted over recorded time, less one


def leave_one_out(rates: Rates) -> dict[Call, tuple[float, Observed]]:
    """Predict each call from the residuals of the others."""
    fitted, found = read_efficiency(), {}
    for key, samples in group(list_observed()).items():
        if key not in fitted or len(fitted[key]["residuals"]) != len(samples):
            raise SystemExit(f"{key}: the recordings have changed; python tools/timing fit")
        rows = fitted[key]["residuals"]
        for i, (work, observed) in enumerate(samples):
            others: Fitted = {**fitted[key], "residuals": rows[:i] + rows[i + 1 :]}
            found[observed.call] = predict_work(work, rates, {key: others})[0], observed
    return found


def list_errors(alone: Mapping[Call, tuple[float, Observed]]) -> Iterator[Error]:
    """Return the errors of these predictions."""
    for ns, observed in alone.values():
        yield observed.call.name, ns / observed.ns - 1


def _refit_key(rates: Rates, parts: int, key: str, samples: Samples) -> list[Error]:
    from timing.fitting import fit_samples

    errors, others = [], {name: fitted for name, fitted in read_efficiency().items() if name != key}
    for part in range(parts):
        kept = [sample for i, sample in enumerate(samples) if i % parts != part]
        held = samples[part::parts]
        fitted = {**others, key: fit_samples(kept, rates)} if kept and held else others
        errors += [(seen.call.name, predict_work(work, rates, fitted)[0] / seen.ns - 1) for work, seen in held]
    return errors


def refit(rates: Rates, parts: int) -> Iterator[Error]:
    """Predict each part of the calls by a fit to the other parts, on every processor."""
    groups = group(list_observed())
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for errors in pool.map(partial(_refit_key, rates, parts), groups, groups.values()):
            yield from errors


def print_errors(errors: Iterable[Error]) -> None:
    """Print the median and the 90th percentile of the errors by family."""
    families: dict[str, list[float]] = collections.defaultdict(list)
    for name, error in errors:
        families[name_family(name)].append(abs(error))
        families["all"].append(abs(error))
    print(f"{'family':24} {'calls':>6} {'median':>7} {'90%':>7} {'within 35%':>11}")
    for family, values in sorted(families.items(), key=lambda item: (item[0] == "all", item[0])):
        values.sort()
        within = sum(value <= 0.35 for value in values) / len(values)
        tenth = values[int(0.9 * (len(values) - 1))]
        print(f"{family:24} {len(values):6} {statistics.median(values):7.1%} {tenth:7.1%} {within:11.1%}")


def print_steps(rates: Rates, alone: Mapping[Call, tuple[float, Observed]]) -> None:
    """Print the time of all kernels of each recorded training step, predicted and recorded.

    Without the optimizer's lists, whose shapes a profile does not have.
    """
    sums: dict[str, list[float]] = collections.defaultdict(lambda: [0.0, 0.0])
    for observed in list_observed():
        if " step " in observed.case:
            known = alone.get(observed.call)
            ns = known[0] if known else predict_work(find_cost(observed.call), rates, read_efficiency())[0]
            sums[observed.case][0] += observed.calls * ns
            sums[observed.case][1] += observed.calls * observed.ns
    print(f"\n{'kernels of':42} {'predicted us':>12} {'recorded us':>12} {'error':>7}")
    for case, (predicted, recorded) in sorted(sums.items()):
        print(f"{case:42} {predicted / 1e3:12.0f} {recorded / 1e3:12.0f} {predicted / recorded - 1:+7.1%}")
    errors = [abs(predicted / recorded - 1) for predicted, recorded in sums.values()]
    print(f"{len(errors)} steps: median {statistics.median(errors):.1%}, {sum(e <= 0.15 for e in errors)} within 15%")


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python tools/timing")
    commands = parser.add_subparsers(dest="command", required=True)
    fitting = commands.add_parser("fit")
    fitting.add_argument("--only", default="", metavar="PATTERN", help="keys whose coefficients are sought anew")
    errors = commands.add_parser("errors")
    errors.add_argument("--refit", type=int, default=0, metavar="PARTS")
    published = commands.add_parser("published")
    published.add_argument("--only", default="", metavar="WORDS", help="of a GPU and a program")
    commands.add_parser("kernels")
    commands.add_parser("peaks")
    arguments = parser.parse_args()
    if arguments.command == "kernels":
        from timing.kernels import print_kernels

        print_kernels()
        return
    if arguments.command == "peaks":
        from timing.peaks import print_peaks

        print_peaks()
        return
    if arguments.command == "published":
        from timing.published import print_published

        print_published(arguments.only)
        return
    rates = Rates.of(gpus.find(GPU))
    if arguments.command == "fit":
        from timing.fitting import fit, fit_samples

        groups, known = group(list_observed()), read_efficiency()
        chosen = {key: rows for key, rows in groups.items() if key not in known or re.search(arguments.only, key)}
        others = groups.keys() - chosen.keys()
        fitted = {key: fit_samples(groups[key], rates, known[key]["coefficients"]) for key in others}
        fitted = dict(sorted({**fitted, **fit(chosen, rates)}.items()))
        rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(fitted[key])}" for key in fitted)
        made = json.dumps("python tools/timing fit")
        EFFICIENCY.write_text(f'{{"made by": {made}, "keys": {{\n{rows}\n}}}}\n', "utf-8")
    else:
        alone = leave_one_out(rates)
        print_errors(refit(rates, arguments.refit) if arguments.refit else list_errors(alone))
        print_steps(rates, alone)


if __name__ == "__main__":
    main()
