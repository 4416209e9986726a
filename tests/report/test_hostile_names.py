"""Names of files, functions and devices cannot break a report; without torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdevice_cuda.report import page, text
from torchdevice_cuda.report.document import (
    Departure,
    Document,
    Holder,
    Memory,
    Process,
    Request,
    Shortage,
    Site,
    Span,
    Timeline,
    Unsupported,
    Work,
    from_json,
)

from .reading import Shape

NAMES = [
    "<script>alert(1)</script>&amp;'\".py",
    "</td></tr></table><img src=x onerror=alert(1)>.py",
    "line\nend\ttab.py",
    "\udcff\udcfe.py",
    "日本.py",
    "\x1b[31m.py",
    "[red]rich[/red] {{ 7 * 7 }} {% raw %}.py",
    "javascript:alert(1)",
]


def hostile(name: str) -> Document:
    """Return a report in which everything that comes from a program has this name."""
    site = Site(name, 1, name)
    return Document(
        driver="virtual",
        gpu=name,
        torch="2.13.0",
        begun="2026-01-01T00:00:00+00:00",
        seconds=1.0,
        processes=(Process(1, name), Process(2, name, name, 0, 1.0, "lost")),
        sees_device=True,
        notes=(),
        work=(
            Work("kernel", name, site, 1, 0.5),
            Work("copy", name, site, 1, 0.1, 5),
            Work("wait", "aten::_local_scalar_dense", site, 9, 0.0),
        ),
        requests=(Request(name, name, f"{name}:1", 1),),
        departures=(Departure(name, name, name, 1, 0.1, name), Departure("float64", name, name, 1)),
        unsupported=(Unsupported(name, name, name, 1),),
        memory=(Memory(1, 0, 5, 0.1, (Holder(site, 5),), ((0.0, 5, 5), (0.1, 5, 0))),),
        timelines=(Timeline(1, (Span("kernel", 0, 0, name, site, 1.0, 2.0, 2.0, 1, 0, False),)),),
        shortages=(Shortage(1, 0, 0.1, site, 9, 5, 6, 0, 2, 1, 8, 8, (Holder(site, 5),)),),
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("render", [page.page, page.cells])
def test_a_name_adds_nothing_to_a_page(name: str, render: object) -> None:
    assert callable(render)
    shown = render(hostile(name))
    shown.encode()
    assert Shape(shown).found == Shape(render(hostile("plain.py"))).found
    assert "\x1b" not in shown and "[red]rich[/red] 49" not in shown


@pytest.mark.parametrize("name", NAMES)
def test_a_name_stays_in_its_cell(name: str) -> None:
    for render in (text.plain, lambda document: text.for_terminal(document, colours=True, width=10_000)):
        shown = render(hostile(name))
        shown.encode()
        assert len(shown.splitlines()) == len(render(hostile("plain.py")).splitlines())
        assert "\x1b[31m.py" not in shown
    assert "[red]rich[/red]" in text.for_terminal(hostile(NAMES[6]), colours=True, width=10_000)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_comes_back_from_data(name: str) -> None:
    assert from_json(hostile(name).to_json()) == hostile(name)


def test_source_is_escaped(tmp_path: Path) -> None:
    file = tmp_path / "<script>alert(1)<.py"
    file.write_text("x = '<script>alert(2)</script>'\n")
    shown = page.page(hostile(str(file)))
    assert "alert(2)" in shown and "<script>alert" not in shown
