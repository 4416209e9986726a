"""Memory use and fallbacks of each test: its peak, the memory that it left, and its fallbacks."""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any

import pytest

from .. import drivers, settings
from ..drivers import Driver, Trait
from ..report.departures import departures

MIB = 1 << 20
_PEAK, _LEFT = "torchdevice_peak_bytes", "torchdevice_left_bytes"
_SHOWN = 10


class _Use:
    """The state of the devices when a test began."""

    def __init__(self) -> None:
        self.held = _held()
        self.departures = _departures()
        self.peak = 0
        #: Whether a traceback of the test holds its tensors: they are no leak.
        self.is_held_by_traceback = False

    def look(self) -> None:
        """Update the peak of the test itself; earlier tests may have left memory allocated."""
        self.peak = max(self.peak, _figures("peak") - self.held)


def _books() -> Driver | None:
    """Return the driver, where it has been used and its books are exact: the process's own memory is not a test's."""
    driver = drivers.installed()
    if driver is None or Trait.NATIVE not in driver.traits or not driver.initialized():
        return None
    return driver


def _figures(figure: str) -> int:
    """Return the bytes of tensors on all devices, now or at the peak."""
    driver = _books()
    if driver is None:
        return 0
    stats = (driver.memory.stats(device) for device in range(driver.device_count()))
    return sum(int(each["allocated_bytes"]["all"][figure]) for each in stats)


def _held() -> int:
    return _figures("current")


def _reset() -> None:
    driver = _books()
    for device in range(0 if driver is None else driver.device_count()):
        assert driver is not None
        driver.memory.reset_peak(device)


def _departures() -> dict[tuple[str, str, str], int]:
    return {(what, where, why): count for count, what, where, why in departures.rows()}


class Books:
    """Hooks of pytest. Figures travel with the reports of tests, so that they arrive from workers, too."""

    def __init__(self, fails_on_fallback: bool, limit: int | None, mark: str) -> None:
        self._fails_on_fallback, self._limit, self._mark = fails_on_fallback, limit, mark
        self._peaks: list[tuple[int, str]] = []
        self._left: list[tuple[int, str]] = []

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Begin the books of a test, with its fixtures."""
        _reset()
        item.stash[_USE] = _Use()
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Fail a test that passed and did what it may not."""
        outcome = yield
        use = item.stash[_USE]
        use.look()
        use.is_held_by_traceback |= outcome.excinfo is not None
        if outcome.excinfo is None and (words := self._complaint(use, self._limit_of(item))):
            outcome.force_exception(pytest.fail.Exception(words, pytrace=False))

    def _limit_of(self, item: pytest.Item) -> tuple[int, str] | None:
        """Return the limit of a test in bytes, and what sets it: the smaller of its mark's and the option's."""
        mark = item.get_closest_marker(self._mark)
        limits = [] if self._limit is None else [(self._limit, "--torchdevice-memory-limit")]
        if mark is not None and (size := mark.kwargs.get("memory")) is not None:
            limits.append((settings.load({"memory": str(size)}, {}).memory or 0, f"memory of its mark {self._mark}:"))
        return min(limits, default=None)

    def _complaint(self, use: _Use, limit: tuple[int, str] | None) -> str | None:
        if limit is not None and use.peak > limit[0]:
            return f"held {use.peak / MIB:.1f} MiB of the GPU at most, more than {limit[1]} {limit[0] / MIB:.1f} MiB"
        left = {row: count - use.departures.get(row, 0) for row, count in _departures().items()}
        rows = [f"{what} -> {where}, {count} times: {why}" for (what, where, why), count in left.items() if count > 0]
        if self._fails_on_fallback and rows:
            return "\n".join(["left the GPU (--torchdevice-fail-on-fallback):", *rows])
        return None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """Close the books when the fixtures are gone, and send the figures."""
        use = item.stash[_USE]
        if call.when == "setup":
            use.is_held_by_traceback = call.excinfo is not None
        if call.when == "teardown":
            use.look()
            if _held() > use.held:
                gc.collect()  # what is in a cycle is not left
            left = 0 if use.is_held_by_traceback or call.excinfo is not None else _held() - use.held
            for name, size in ((_PEAK, use.peak), (_LEFT, left)):
                if size > 0:
                    item.user_properties.append((name, size))
        yield

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the figures, of workers too."""
        if report.when == "teardown":
            found = dict(report.user_properties)
            if found.get(_PEAK):
                self._peaks.append((int(str(found[_PEAK])), report.nodeid))
            if found.get(_LEFT):
                self._left.append((int(str(found[_LEFT])), report.nodeid))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the tests with the highest peaks, and all that left memory."""
        tables = (
            (f"most device memory (of {len(self._peaks)} tests that used some)", self._peaks, _SHOWN),
            ("device memory that tests left behind", self._left, len(self._left)),
        )
        for title, rows, shown in tables:
            if rows:
                terminalreporter.section(title, sep="-")
                for size, nodeid in sorted(rows, key=lambda row: (-row[0], row[1]))[:shown]:
                    terminalreporter.line(f"{_describe(size):>14}  {nodeid}")


def _describe(size: int) -> str:
    return f"{size / MIB:.2f} MiB" if size >= MIB else f"{size / 1024:.2f} KiB"


_USE = pytest.StashKey[_Use]()
