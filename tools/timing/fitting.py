"""Fit the coefficients of the model to recorded calls."""

from __future__ import annotations

import concurrent.futures
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

from scipy.optimize import minimize

from timing.recorded import Samples
from torchdevice_cuda.rehearsal.model import DEFAULTS, Rates, list_coefficients, place, time_work
from torchdevice_cuda.rehearsal.prediction import Fitted

#: Where the search begins: bound by memory, by arithmetic, by rows, and with other tiles.
_STARTS: tuple[dict[str, float], ...] = (
    {},
    {"each": 0.3, "row": 0.3, "block": 30.0, "tile": 1000.0},
    {"each": 5.0, "row": 0.001, "step": 500.0},
    {"each": 0.001, "row": 2.0, "block": 200.0, "tile": 16000.0, "peak": 0.9},
    {"each": 100.0, "row": 0.01, "l2": 0.6, "hbm": 0.4, "peak": 0.2},
)


def fit_one(samples: Samples, rates: Rates) -> dict[str, float]:
    """Return the coefficients with the least error of the logarithm; a weak pull to the defaults settles the rest."""
    names = list_coefficients(samples[0][0])
    begin = [math.log(DEFAULTS[name]) for name in names]

    def error(logs: Sequence[float]) -> float:
        c = {**DEFAULTS, **{name: math.exp(min(max(value, -20), 20)) for name, value in zip(names, logs, strict=True)}}
        missed = [abs(math.log(max(time_work(work, rates, c), 1) / each.ns)) for work, each in samples]
        pull = sum((value - start) ** 2 for value, start in zip(logs, begin, strict=True))
        return sum(missed) / len(missed) + 0.002 * pull / len(samples) ** 0.5

    best = None
    shortest = math.log(min(each.ns for _, each in samples))
    for each_start in _STARTS if len(samples) > 2 else _STARTS[:1]:
        start = [math.log(each_start.get(name, DEFAULTS[name])) for name in names]
        start[names.index("start")] = shortest if names[-1] != "power" else 5.0
        found = minimize(error, start, method="Nelder-Mead", options={"maxiter": 80 * len(names), "fatol": 1e-3})
        found = minimize(error, found.x, method="Nelder-Mead", options={"maxiter": 80 * len(names), "fatol": 1e-3})
        best = found if best is None or found.fun < best.fun else best
    assert best is not None
    fitted = {name: float(f"{math.exp(value):.4g}") for name, value in zip(names, best.x, strict=True)}
    fitted["launches"] = round(statistics.median(each.launches for _, each in samples), 1)
    return fitted


def list_residuals(samples: Samples, rates: Rates, coefficients: dict[str, float]) -> list[list[float]]:
    """Return each sample's place, and the logarithm of its recorded over its computed time."""
    c = {**DEFAULTS, **coefficients}
    return [[*place(work), round(math.log(each.ns / time_work(work, rates, c)), 3)] for work, each in samples]


#: The most samples by which coefficients are sought.
_ENOUGH = 60


def fit_samples(samples: Samples, rates: Rates, coefficients: dict[str, float] | None = None) -> Fitted:
    """Fit the coefficients of a key unless they are given, and list the residuals."""
    coefficients = coefficients or fit_one(samples[:: -(-len(samples) // _ENOUGH)], rates)
    return {"coefficients": coefficients, "residuals": list_residuals(samples, rates, coefficients)}


def fit(groups: Mapping[str, Samples], rates: Rates) -> dict[str, Fitted]:
    """Fit these keys, on every processor."""
    with concurrent.futures.ProcessPoolExecutor() as pool:
        return dict(zip(groups, pool.map(fit_samples, groups.values(), itertools.repeat(rates)), strict=True))
