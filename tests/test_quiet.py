"""Correct programs print no message, even if torch was built for a GPU that the machine lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import CPU, VIRTUAL, ChildConfig, python
from harness.places import must_be_ready

ROOT = Path(__file__).resolve().parents[1]
#: Kineto writes that it starts and stops, of stock torch's CPU profiles as well. A CPU build comes without triton, and
#: torch's counter of operations, which export imports here, logs that.
OF_TORCH = ("USDT:", "triton not found; flop counting will not work")
#: Stock torch deprecates what its own export calls; a missing GPU or driver is no FutureWarning. Stock 2.11 warns on
#: each load of an exported program, and of how its profiler keeps events.
#: (Its words go on after a colon, which the option cannot say.)
OF_OLDER = ("The given buffer is not writable", "Warning")
IGNORED = ("ignore::FutureWarning", *(f"ignore:{words}" for words in OF_OLDER))
STRICT = ("-W", "error", *(part for one in IGNORED for part in ("-W", one)))
PROGRAMS = [ROOT / "examples" / "hello_cuda.py", *sorted((ROOT / "tests" / "quiet").glob("*.py"))]
SLOW = {name: [pytest.mark.slow] for name in ("compiling", "exporting", "profiling")}
EACH = [pytest.param(path, marks=SLOW.get(path.stem, []), id=path.stem) for path in PROGRAMS]
BOTH = [pytest.param(place, marks=place.marks, id=str(place)) for place in (CPU.rarely(), VIRTUAL)]


@pytest.mark.parametrize("program", EACH)
@pytest.mark.parametrize("where", BOTH)
def test_no_message_is_printed(program: Path, where: ChildConfig) -> None:
    must_be_ready(where)
    done = python(*STRICT, "-m", "torchdevice_cuda", "--driver", str(where.driver), program, timeout=300)
    assert [line for line in done.err.splitlines() if not any(words in line for words in OF_TORCH)] == []
    assert done.out
