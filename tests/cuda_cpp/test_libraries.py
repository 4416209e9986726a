"""Programs that use cuRAND in kernels, CUB and Thrust print what they print on an H200: the same bits, or nearly."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from recorded import libraries, read_record

from torchdevice_cuda.cuda_cpp import nvcc

RECORD = read_record(libraries.RECORD)
CLOSE = 2e-6  # of normal numbers: a GPU takes its quick sine; doubles agree to 1e-15


def number(word: str) -> float:
    """Printed as its bits."""
    found: float = struct.unpack({"f": ">f", "d": ">d"}[word[0]], bytes.fromhex(word[1:]))[0]
    return found


@pytest.mark.parametrize(
    "name", ["curand", pytest.param("cub", marks=pytest.mark.slow), pytest.param("thrust", marks=pytest.mark.slow)]
)
def test_a_program_prints_what_it_prints_on_a_gpu(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    assert nvcc.main(["-O1", str(libraries.SOURCES / f"{name}.cu"), "-o", str(program)]) == 0
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=True)
    printed = libraries.read_lines(done.stdout)
    assert printed.keys() == RECORD[name].keys()
    for line, values in printed.items():
        expected = RECORD[name][line]
        if line not in libraries.NUMBERS:
            assert libraries.summarize(line, values) == expected, line
            continue
        close = 1e-14 if line.endswith("double") else CLOSE
        for ours, theirs in zip(values.split(), expected.split(), strict=True):
            assert number(ours) == pytest.approx(number(theirs), abs=close, rel=close), line
