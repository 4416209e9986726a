"""Fit the coefficients of the model to recorded calls."""

from __future__ import annotations

import concurrent.futures
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy
from scipy.optimize import least_squares

from timing.recorded import Samples
from torchdevice_cuda.rehearsal.model import DEFAULTS, Rates, correct, list_coefficients, place, time_work
from torchdevice_cuda.rehearsal.prediction import Fitted

#: Coefficients in units of what a key counts: a recording tells their size, no default.
_LINEAR = ("each", "row", "block")
#: The share of the time that such a term has until recordings tell.
_QUIET = 0.1
#: Other places where the search begins, relative to the defaults, for products and what has no terms of its own.
_STARTS: tuple[dict[str, float], ...] = (
    {"tile": 4.0, "peak": 1.5},
    {"tile": 0.25, "step": 5.0},
    {"tile": 0.25, "peak": 0.4},
    {"tile": 0.03, "peak": 1.35, "step": 3.5},
)
#: The weight of the defaults, and the error from which a recording counts less than by its square.
_PULL, _OUTLIER = 0.05, 0.1


def _find_defaults(names: Sequence[str], samples: Samples, rates: Rates) -> dict[str, float]:
    """Return the coefficients to begin with; the shortest recording has little else than its start."""
    found = {name: DEFAULTS[name] for name in names}
    found["start"] = 5.0 if "power" in names else 0.9 * min(each.ns for _, each in samples)
    for name in set(names) & set(_LINEAR):
        alone = {**DEFAULTS, "start": 1e-3, "hbm": 1e6, "l2": 1e6, **dict.fromkeys(_LINEAR, 1e-12), name: 1.0}
        ratios = [each.ns / max(time_work(work, rates, alone), 1e-9) for work, each in samples]
        found[name] = _QUIET * statistics.median(ratios)
    return found


def _list_starts(names: Sequence[str]) -> list[dict[str, float]]:
    linear = [name for name in names if name in _LINEAR]
    if linear:
        alone = [{name: 1 / _QUIET} for name in linear]
        return [{}, *alone, *([dict.fromkeys(linear, 1 / _QUIET)] if len(linear) > 1 else [])]
    return [{}, *(start for start in _STARTS if start.keys() <= set(names))]


def fit_one(samples: Samples, rates: Rates) -> dict[str, float]:
    """Return the coefficients with the least error of the logarithm; a weak pull to the defaults settles the rest."""
    names = list_coefficients(samples[0][0])
    defaults = _find_defaults(names, samples, rates)
    middle = numpy.log([defaults[name] for name in names])
    recorded = numpy.log([each.ns for _, each in samples])

    def miss(logs: numpy.ndarray) -> numpy.ndarray:
        c = {**DEFAULTS, **dict(zip(names, numpy.exp(numpy.clip(logs, -30, 30)).tolist(), strict=True))}
        times = [max(time_work(work, rates, c), 1) for work, _ in samples]
        return numpy.concatenate([numpy.log(times) - recorded, _PULL * (logs - middle)])

    found = []
    for start in _list_starts(names) if len(samples) > 2 else [{}]:
        begin = middle + numpy.log([start.get(name, 1.0) for name in names])
        found.append(least_squares(miss, begin, loss="soft_l1", f_scale=_OUTLIER, diff_step=0.01, max_nfev=40))
    best = min(found, key=lambda each: each.cost).x
    fitted = {name: float(f"{math.exp(value):.4g}") for name, value in zip(names, best, strict=True)}
    fitted["launches"] = round(statistics.median(each.launches / work.kernels for work, each in samples), 1)
    return fitted


def list_residuals(samples: Samples, rates: Rates, coefficients: dict[str, float]) -> list[list[float]]:
    """Return each sample's place, and the logarithm of its recorded over its computed time."""
    c = {**DEFAULTS, **coefficients}
    return [[*place(work), round(math.log(each.ns / time_work(work, rates, c)), 3)] for work, each in samples]


#: Weights of the formula beside recordings that are near.
_WEIGHTS = (0.15, 0.5, 1.5, 5.0)


def choose_weight(residuals: Sequence[list[float]]) -> float:
    """Return the weight of the formula with which each recording is predicted best by the others."""

    def miss(weight: float) -> float:
        found = 0.0
        for i, (*where, residual) in enumerate(residuals):
            others = itertools.chain(residuals[:i], residuals[i + 1 :])
            found += min(abs(residual - math.log(correct(where, others, weight))), 1.0)
        return found

    return min(_WEIGHTS, key=miss) if len(residuals) > 2 else _WEIGHTS[1]


#: The most samples by which coefficients are sought.
_ENOUGH = 60


def fit_samples(samples: Samples, rates: Rates, coefficients: dict[str, float] | None = None) -> Fitted:
    """Fit the coefficients of a key unless they are given, and list the residuals."""
    coefficients = coefficients or fit_one(samples[:: -(-len(samples) // _ENOUGH)], rates)
    residuals = list_residuals(samples, rates, coefficients)
    return {"coefficients": {**coefficients, "formula": choose_weight(residuals)}, "residuals": residuals}


def fit(groups: Mapping[str, Samples], rates: Rates) -> dict[str, Fitted]:
    """Fit these keys, on every processor."""
    with concurrent.futures.ProcessPoolExecutor() as pool:
        return dict(zip(groups, pool.map(fit_samples, groups.values(), itertools.repeat(rates)), strict=True))
