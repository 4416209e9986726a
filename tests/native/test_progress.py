"""Progress of a build: estimates that adapt, a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import clean_environment

from torchdevice_cuda.native import build, compilation, parts
from torchdevice_cuda.native.progress import Estimate, Progress

from .compilers import Bench

WEIGHTS = {"large": 40.0, "middle": 30.0, "small": 10.0}


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_before_anything_is_known() -> None:
    """Two at a time: 40 beside 30 and 10, and a second for the linker."""
    assert Estimate(WEIGHTS, 2, 1.0, Clock()).left() == 41
    assert Estimate(WEIGHTS, 1, 1.0, Clock()).left() == 81
    # The last build here took three times as long.
    assert Estimate(WEIGHTS, 2, 3.0, Clock()).left() == 123


def test_it_follows_what_happens() -> None:
    clock = Clock()
    estimate = Estimate(WEIGHTS, 2, 1.0, clock)
    estimate.began("large")
    estimate.began("middle")
    clock.now = 20
    assert estimate.left() == 21
    # It should have ended at 30: things take twice as long as was thought, as far as is known.
    clock.now = 60
    # Half as long again as they are late, 10 and 15; then the small one, and the linker.
    assert estimate.pace() == 2 and estimate.left() == 10 + 20 + 2
    estimate.ended("middle")
    estimate.began("small")
    assert estimate.left() == 20 + 2
    clock.now = 80
    estimate.ended("large")
    estimate.ended("small")
    assert estimate.left() == estimate.pace() == 2  # the linker


def test_a_unit_past_its_time_is_not_said_to_be_done() -> None:
    clock = Clock()
    estimate = Estimate({"one": 10.0}, 1, 1.0, clock)
    estimate.began("one")
    shown = []
    for clock.now in (9, 11, 50, 110):
        shown.append(estimate.left())
    assert shown[0] == 2 and shown[1] > 1 and shown[2:] == [20 + 5, 50 + 11]


def test_lines_where_there_is_no_terminal() -> None:
    clock, said = Clock(), list[str]()
    progress = Progress(WEIGHTS, 2, 1.0, said.append, None, clock)
    for name in ("large", "middle"):
        progress.estimate.began(name)
    for clock.now in (0.5, 14.5, 15, 15.5, 29, 30, 30.5):
        progress.look()
    assert [re.sub(r"\d+ s left", "N s left", line) for line in said] == [
        "  [0/3] still at large, middle (15 s, about N s left)",
        "  [0/3] still at large, middle (30 s, about N s left)",
    ]
    progress.ended("middle")
    assert said[-1].startswith("  [1/3] middle (30 s, about ")


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, terminal, said = Clock(), io.StringIO(), list[str]()
    monkeypatch.setenv("COLUMNS", "200")
    progress = Progress(WEIGHTS, 2, 1.0, said.append, terminal, clock)
    for name in ("large", "middle"):
        progress.estimate.began(name)
    clock.now = 20.5
    progress.look()
    assert terminal.getvalue() == "\r\033[K[" + "#" * 12 + "." * 12 + "] about 20 s left; 0/3 units, at large, middle"
    clock.now = 80  # twice as long: the seconds go up, the bar does not go back
    progress.look()
    assert terminal.getvalue().count("#" * 12) >= 2 and not said
    progress.clear()
    assert terminal.getvalue().endswith("\r\033[K")


def test_the_last_build_is_remembered(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    path = build.library("cuda", say=said.append)
    first = sum(unit.seconds for unit in parts.parts_of("cuda")[parts.CORE].units.values()) / 2
    assert float(re.findall(r"about (\d+) s", said[0])[0]) == pytest.approx(first, rel=0.15)
    assert float(path.with_name("pace").read_text()) < 0.5  # a script is quick
    path.with_name("pace").write_text("3.0")
    build.library("cuda", force=True, say=said.append)
    last = [line for line in said if "building" in line][-1]
    assert float(re.findall(r"about (\d+) s", last)[0]) == pytest.approx(3 * first, rel=0.15)
    for nonsense in ("", "nan", "-1", "1e9", "x"):
        path.with_name("pace").write_text(nonsense)
        assert compilation._pace(bench.cache) == 1


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a terminal as Linux makes them")
def test_on_a_real_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = clean_environment(**Bench(tmp_path).environment("sleep 0.4"))
    process = subprocess.Popen(
        [sys.executable, "-m", "torchdevice_cuda", "--build"], stderr=theirs, stdout=subprocess.PIPE, env=environment
    )
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            more = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        shown += more
    os.close(ours)
    out, _ = process.communicate(timeout=30)
    made = out.decode().split()
    assert process.returncode == 0 and len(made) == len(parts.parts_of("cuda"))
    assert all(Path(path).is_file() for path in made)
    lines = shown.decode().replace("\r\n", "\n").split("\n")
    units = sum(len(part.units) for part in parts.parts_of("cuda").values()) + 1  # and the headers
    first = rf"building the native device \(cuda\) for torch \S+: {units} units, \d+ at a time, about \d+ s, once"
    assert re.search(first, lines[0])
    assert re.search(rf"\[#*\.*\] about \d+ s left; \d+/{units} units, at \w+", lines[1])
    assert re.fullmatch(r".*\r\033\[Ktorchdevice_cuda: built in \d+ s: .*", lines[1])
