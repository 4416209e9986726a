"""Marked tests with many orders of streams: each runs once for every seed, which its id names."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

FLAG = "--torchdevice-streams"
MARK = "adversarial_streams"
_SEED = "torchdevice_seed"


def read_seeds(text: str) -> int:
    """Read the number of seeds."""
    match = re.fullmatch(r"\s*adversarial:([1-9][0-9]{0,5})\s*", text.lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"{FLAG}={text!r} cannot be read; allowed: adversarial:COUNT")
    return int(match[1])


class Seeds:
    """Parametrizes the marked tests with seeds, and runs work of streams in the order that each chooses."""

    def __init__(self, count: int) -> None:
        self._seeds = range(count)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Add the seed to the fixtures and the ids of marked tests."""
        if metafunc.definition.get_closest_marker(MARK) is None:
            return
        metafunc.parametrize(_SEED, self._seeds, ids=[f"streams={seed}" for seed in self._seeds], indirect=True)

    # Every test has it: pytest forgets a fixture that is added to a test with parameters of its own.
    @pytest.fixture(autouse=True)
    def torchdevice_seed(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """Defer work of a marked test, from its start to its end."""
        seed = getattr(request, "param", None)
        if seed is None:
            yield
            return
        import torch  # noqa: F401  (the driver is chosen when torch is imported)

        from .. import drivers

        driver = drivers.installed()
        native = None if driver is None or driver.name != "virtual" else driver.native
        if native is None:
            pytest.fail(f"{FLAG} needs the driver virtual: --torchdevice-driver virtual", pytrace=False)
        native.start_deferral(seed)
        yield
        native.stop_deferral()
