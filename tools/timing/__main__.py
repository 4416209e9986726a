"""Fit the model of a GPU's times to recordings, and print its errors.

python tools/record record timing        # on the GPU: writes tests/data/timing-h200-2.11.json.xz
python tools/timing fit                  # writes torchdevice_cuda/rehearsal/efficiency.json; needs scipy
python tools/timing errors               # errors by family, each call predicted without its own recording
python tools/timing errors --refit 5     # each fifth of the calls predicted by a fit to the other four
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Its own folder is no place for imports: the modules are those of the package `timing`.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path += [str(HERE.parent), str(HERE.parents[1])]

from timing.recorded import group, list_observed  # noqa: E402
from torchdevice_cuda.rehearsal.families import name_family  # noqa: E402
from torchdevice_cuda.rehearsal.model import Rates  # noqa: E402
from torchdevice_cuda.rehearsal.prediction import EFFICIENCY, predict_work, read_efficiency  # noqa: E402
from torchdevice_cuda.settings import gpus  # noqa: E402

#: The GPU of the recordings.
GPU = "h200"
Error = tuple[str, float]  # the operator, and predicted over recorded time, less one


def leave_one_out(rates: Rates) -> Iterator[Error]:
    """Predict each call from the residuals of the others."""
    fitted = read_efficiency()
    for key, samples in group(list_observed()).items():
        rows = fitted[key]["residuals"]
        for i, (work, observed) in enumerate(samples):
            others = {key: {**fitted[key], "residuals": rows[:i] + rows[i + 1 :]}}
            yield observed.call.name, predict_work(work, rates, others)[0] / observed.ns - 1  # type: ignore[arg-type]


def refit(rates: Rates, parts: int) -> Iterator[Error]:
    """Predict each part of the calls by a fit to the other parts."""
    from timing.fitting import fit_samples

    for key, samples in group(list_observed()).items():
        for part in range(parts):
            kept = [sample for i, sample in enumerate(samples) if i % parts != part]
            held = samples[part::parts]
            fitted = {key: fit_samples(kept, rates)} if kept and held else {}
            for work, observed in held:
                yield observed.call.name, predict_work(work, rates, fitted)[0] / observed.ns - 1


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


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python tools/timing")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fit")
    errors = commands.add_parser("errors")
    errors.add_argument("--refit", type=int, default=0, metavar="PARTS")
    arguments = parser.parse_args()
    rates = Rates.of(gpus.find(GPU))
    if arguments.command == "fit":
        from timing.fitting import fit

        fitted = fit(list_observed(), rates)
        rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(fitted[key])}" for key in fitted)
        made = json.dumps("python tools/timing fit")
        EFFICIENCY.write_text(f'{{"made by": {made}, "keys": {{\n{rows}\n}}}}\n', "utf-8")
    else:
        print_errors(refit(rates, arguments.refit) if arguments.refit else leave_one_out(rates))


if __name__ == "__main__":
    main()
