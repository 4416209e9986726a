"""The page of a report in a real browser: zoom, hover, links, search, themes; 10,000 pieces of work; no network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.browser import browser, reason_for_none

from torchdevice_cuda.report import page
from torchdevice_cuda.report.document import (
    Document,
    Finding,
    Holder,
    Memory,
    Point,
    Process,
    Request,
    Shortage,
    Site,
    Span,
    Timeline,
    Work,
)

pytestmark = pytest.mark.skipif(bool(reason_for_none()), reason=reason_for_none())

EVENTS = 10_000
#: Microseconds between two pieces of work, and how long each is.
APART, LONG = 100.0, 60.0


def long_run(program: Path) -> Document:
    """Return a report of one program with two streams, which ran out of memory."""
    lines = [Site(str(program), number, "<module>") for number in (1, 2, 3)]
    kinds = ("kernel", "copy", "kernel", "wait")
    spans = [
        Span(kinds[n % 4], 0, 3 * (n % 2), f"aten::op{n % 7}", lines[n % 3], n * APART, LONG, LONG, 1, n % 5, False)
        for n in range(EVENTS)
    ]
    seconds = EVENTS * APART / 1e6
    return Document(
        driver="virtual",
        gpu="Tesla T4",
        torch="2.13.0",
        begun="2026-01-01T00:00:00+00:00",
        seconds=seconds,
        processes=(Process(1, "train.py", seconds=seconds, started=1.0),),
        sees_device=True,
        work=(
            Work("kernel", "aten::mm", lines[0], 5000, 0.3),
            Work("wait", "aten::_local_scalar_dense", lines[1], 2500, 0.0),
        ),
        requests=(Request("cuda", "cuda:0", f"{program}:1", 3),),
        memory=(
            Memory(1, 0, 3 << 30, 0.5, (Holder(lines[0], 3 << 30),), ((0.0, 1 << 30, 1 << 30), (0.4, 3 << 30, 0))),
        ),
        timelines=(Timeline(1, tuple(spans)),),
        findings=(
            Finding(
                1,
                "check-streams",
                "error",
                "Race between streams: line 2",
                lines[1],
                lines[0],
                ("stream 3", "the default stream"),
                (Point(0, 3, seconds / 2), Point(0, 0, seconds / 4)),
            ),
        ),
        shortages=(Shortage(1, 0, 0.6, lines[2], 2 << 30, 3 << 30, 3 << 30, 0, 1 << 30, 0, 4 << 30, 4 << 30, ()),),
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("program") / "train it.py"
    file.write_text("first = model(x)\nprint(loss.item())\nbig = torch.empty(n)\n")
    return file


@pytest.fixture(scope="module")
def shown(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    file = tmp_path_factory.mktemp("page") / "out.html"
    file.write_text(page.page(long_run(program)), encoding="utf-8")
    with browser() as driver:
        driver.get(file.as_uri())
        yield driver


def period(shown: Any) -> tuple[float, float]:
    """Return the part of the timeline that is shown, once it is painted."""
    canvas = "document.querySelector('canvas').dataset"
    shown.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return tuple(map(float, shown.execute_script(f"return [{canvas}.from, {canvas}.to]")))  # type: ignore[return-value]


def point(shown: Any, kind: str, x: float, y: float, **more: Any) -> None:
    """Send a pointer event to a place of the canvas."""
    shown.execute_script(
        """const [kind, x, y, more] = arguments, canvas = document.querySelector("canvas");
        const box = canvas.getBoundingClientRect(), made = kind === "wheel" ? WheelEvent : PointerEvent;
        canvas.setPointerCapture = () => {};
        const at = {clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true};
        canvas.dispatchEvent(new made(kind, {...at, ...more}));""",
        kind,
        x,
        y,
        more,
    )


def test_the_page_needs_nothing_and_has_no_errors(shown: Any) -> None:
    assert shown.get_log("browser") == []
    assert shown.execute_script("return performance.getEntriesByType('resource').map(each => each.name)") == []


def test_it_answers_on_the_first_screen(shown: Any) -> None:
    texts = shown.execute_script(
        """return [...document.querySelectorAll(".verdict, h2")]
        .filter(each => each.getBoundingClientRect().bottom < innerHeight).map(each => each.innerText)"""
    )
    assert "ran out of GPU memory" in texts[0] and "2.0 GiB at" in texts[0]
    assert any("Out of memory" in text for text in texts[1:])


def test_races_are_arrows_between_lanes(shown: Any) -> None:
    period(shown)
    width = shown.execute_script("return document.querySelector('canvas').clientWidth")
    assert shown.execute_script("return document.querySelector('canvas').dataset.races") == "1"
    x, lanes = 150 + (width - 150) * 3 / 8, [26 + 22 + 24 + 22 + 24 * n + 12 for n in range(2)]
    point(shown, "pointermove", x, sum(lanes) / 2)
    assert shown.execute_script("return document.querySelector('.tip').innerText") == "Race between streams: line 2"


def test_zoom(shown: Any) -> None:
    whole = period(shown)
    width = shown.execute_script("return document.querySelector('canvas').clientWidth")
    click = "document.querySelector('[data-zoom={}]').click()"
    shown.execute_script(click.format("in"))
    near = period(shown)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2, rel=0.01)
    shown.execute_script(click.format("all"))
    assert period(shown) == whole

    middle = 150 + (width - 150) / 2  # drag over the third quarter
    point(shown, "pointerdown", middle, 60, button=0)
    point(shown, "pointermove", middle + 50, 60)
    point(shown, "pointermove", middle + (width - 150) / 4, 60)
    point(shown, "pointerup", middle + (width - 150) / 4, 60)
    start, end = period(shown)
    assert start == pytest.approx((whole[0] + whole[1]) / 2, rel=0.02)
    assert end - start == pytest.approx((whole[1] - whole[0]) / 4, rel=0.05)

    point(shown, "wheel", middle, 60, deltaY=-300, ctrlKey=True)
    closer = period(shown)
    assert closer[1] - closer[0] < (end - start) * 0.8
    point(shown, "wheel", middle, 60, deltaY=-300)
    assert period(shown) == closer, "without Ctrl the wheel scrolls the page"
    point(shown, "dblclick", middle, 60)
    assert period(shown) == whole


def test_hover_and_links(shown: Any, program: Path) -> None:
    canvas = shown.find_element("css selector", "canvas")
    for _ in range(9):  # until a piece of work is wide
        canvas.send_keys("+")
    start, end = period(shown)
    width = canvas.size["width"]
    number = next(n for n in range(EVENTS) if n % 4 == 2 and n * APART > (start + end) / 2)
    x = 150 + (number * APART + LONG / 2 - start) / (end - start) * (width - 150)
    default_stream = 26 + 22 + 24 + 22 + 12  # below the axis, the host's lane and the titles of both
    point(shown, "pointermove", x, default_stream)
    tip = shown.find_element("css selector", ".tip")
    line = number % 3 + 1
    assert f"aten::op{number % 7}" in tip.text and f"train it.py:{line}" in tip.text and "60 us" in tip.text
    assert program.read_text().splitlines()[line - 1] in tip.text

    point(shown, "pointerdown", x, default_stream, button=0)
    point(shown, "pointerup", x, default_stream)
    (link,) = shown.find_elements("css selector", ".pin a")
    address = program.as_uri().replace("file:///", "vscode://file/")
    assert link.get_attribute("href") == f"{address}:{line}"
    canvas.send_keys("0")
    links = {each.get_attribute("href") for each in shown.find_elements("css selector", ".advice a, .code a, .card a")}
    assert links == {f"{address}:{number}" for number in (1, 2, 3)}


def test_ten_thousand_pieces_respond(shown: Any) -> None:
    took = shown.execute_async_script(
        """const done = arguments[0], canvas = document.querySelector("canvas"), times = [];
        function step(left) {
          if (!left) return done(times);
          const began = performance.now();
          canvas.dispatchEvent(new KeyboardEvent("keydown", {key: left % 2 ? "+" : "0"}));
          requestAnimationFrame(() => { times.push(performance.now() - began); step(left - 1); });
        }
        step(20);"""
    )
    assert sorted(took)[10] < 100, took
    ready = shown.execute_script("return performance.getEntriesByType('navigation')[0].domComplete")
    assert ready < 3000


def test_memory_has_axes_and_an_answer(shown: Any) -> None:
    chart = shown.find_element("css selector", "svg.chart")
    labels = {each.text for each in chart.find_elements("css selector", "text")}
    assert {"0 B", "1 GiB", "2 GiB", "3 GiB", "peak: 3 GiB", "allocated"} <= labels
    assert any(label.endswith("ms") for label in labels)
    shown.execute_script(
        """const box = arguments[0].getBoundingClientRect(), at = {clientX: box.left + 150, clientY: box.top + 50};
        arguments[0].dispatchEvent(new PointerEvent("pointermove", at));""",
        chart,
    )
    tips = [each.text for each in shown.find_elements("css selector", ".tip")]
    assert any(text.endswith(": 1 GiB") for text in tips), tips


def test_search_order_and_theme(shown: Any) -> None:
    shown.find_element("css selector", "#find").send_keys("item()")
    rows = [each for each in shown.find_elements("css selector", ".code tbody tr") if each.is_displayed()]
    assert len(rows) == 1 and "loss.item()" in rows[0].text
    back = "return getComputedStyle(document.body).backgroundColor"
    light = shown.execute_script(back)
    for _ in range(2):  # as the system, light, dark
        shown.execute_script("document.getElementById('theme').click()")
    assert shown.execute_script(back) != light
    assert shown.get_log("browser") == []


@pytest.mark.parametrize("width", [1280, 640])
@pytest.mark.parametrize("render", [page.page, page.cells], ids=["page", "cell of a notebook"])
def test_nothing_overlaps_or_overflows(program: Path, tmp_path: Path, render: Any, width: int) -> None:
    file = tmp_path / "out.html"
    file.write_text("<!doctype html>" + render(long_run(program)), encoding="utf-8")
    with browser(width=width) as driver:
        driver.get(file.as_uri())
        assert driver.get_log("browser") == []
        wide, tall = driver.execute_script(
            """const figures = [...document.querySelectorAll(".figures div")];
            return [document.documentElement.scrollWidth - innerWidth,
              figures.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)]"""
        )
        assert wide <= 0 and tall == []
        assert float(driver.execute_script("return document.querySelector('canvas.timeline').dataset.drawn")) > 100
        axis = [each.text for each in driver.find_elements("css selector", "svg.chart text")]
        assert "time since the program started" in axis and "allocated" in axis
