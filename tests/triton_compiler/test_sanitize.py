"""``--sanitize`` finds errors of Triton kernels, compiled and interpreted, and none in right ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import CPU, VIRTUAL, ChildConfig, Finished, run_forked
from harness.places import must_be_ready

pytest.importorskip("triton")
pytest.importorskip("numpy")

PROGRAM = Path(__file__).parent / "programs" / "sanitized.py"
#: What is found in each case: the line's text, the program, and the beginning of the message.
CASES: dict[str, tuple[str, str, str] | None] = {
    "masked": None,
    "written": None,
    "unwritten": (
        "tl.store(y + at, tl.load(x + at, mask=mask) + 1, mask=mask)", "1,0,0",
        "Error: Uninitialized __global__ memory read of size 4 bytes at 0x",
    ),
    "overlapping": (
        "tl.store(x + at, value)", "1,0,0",
        "Error: Race reported between Write access and Read access by block [0,0,0] at ",
    ),
    "sums": None,
    "plain_sums": (
        "tl.store(out, tl.load(out) + tl.sum(tl.load(x + at)))", "1,0,0",
        "Error: Race reported between Read access and Write access by block [0,0,0] at ",
    ),
    "last_program": None,
    "last_relaxed": (
        "total += tl.load(partial + i)", "3,0,0",
        "Error: Race reported between Read access and Write access by block [0,0,0] at ",
    ),
    "locked": None,
    "past_the_end": ("value = tl.load(x + at)", "4,0,0", "Invalid __global__ read of size 4 bytes: access to 0x"),
}  # fmt: skip
NATIVE = [
    pytest.param(VIRTUAL, "compiled", marks=VIRTUAL.marks, id="virtual-compiled"),
    pytest.param(VIRTUAL, "interpreted", marks=VIRTUAL.marks, id="virtual-interpreted"),
    pytest.param(CPU, "compiled", id="cpu-compiled", marks=pytest.mark.slow),
]


def run_cases(config: ChildConfig, triton: str, tools: str, *cases: str) -> Finished:
    must_be_ready(config)
    options = ("--driver", config.name, "--triton", triton, "--sanitize", tools)
    return run_forked("-m", "torchdevice_cuda", *options, str(PROGRAM), *cases, check=False)


@pytest.mark.parametrize(("config", "triton"), NATIVE)
def test_findings_are_those_of_the_kernels(config: ChildConfig, triton: str) -> None:
    # Without an allocator of its own, cpu knows neither what was written nor where tensors end.
    cases = [name for name in CASES if config is VIRTUAL or name not in ("unwritten", "past_the_end")]
    done = run_cases(config, triton, "memcheck,racecheck,initcheck", *cases)
    said = {part.split("\n")[0]: part.split("\n")[1:] for part in done.err.split("-- ")[1:]}
    lines = PROGRAM.read_text().splitlines()
    for name in cases:
        found = [re.fullmatch(r"\S*sanitized\.py:(\d+): kernel \w+: (.*)", line) for line in said[name]]
        messages = [(lines[int(one[1]) - 1].strip(), one[2]) for one in found if one is not None]
        expected = CASES[name]
        if expected is None:
            assert messages == [], name
            continue
        text, block, beginning = expected
        assert messages, (name, done.err)
        assert messages[0][0] == text
        assert messages[0][1].startswith(f"block: [{block}], thread: [0,0,0] {beginning}"), messages
    assert done.status == 1
    assert "--sanitize found " in done.err


@pytest.mark.native
@pytest.mark.parametrize("triton", ["compiled", pytest.param("interpreted", marks=pytest.mark.slow)])
def test_a_seed_is_an_order_of_programs(triton: str) -> None:
    assert run_cases(VIRTUAL, triton, "racecheck", "first").out == "first 0\n"
    firsts = {run_cases(VIRTUAL, triton, f"racecheck:{seed}", "first").out for seed in (1, 2)}
    assert firsts != {"first 0\n"}
