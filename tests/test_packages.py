"""tools/packages: rows end as their programs do, interrupted runs go on, and the documented table has its rows."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness.processes import ROOT

TOOL = ROOT / "tools" / "packages"
ROW = """
[{name}]
version = "HEAD"
source = "github:owner/name"
build = "none"
program = '''
{program}
'''
"""
PROGRAMS = {
    "sum": "import torch, value; assert torch.ones(value.N, device='cuda').sum() == 3",
    "wrong": "import value; assert value.N == 4, f'got {value.N} | 4'",
    "crash": "import os; os.abort()",
}


def run_tool(work: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "--work", str(work), "--rows", str(work / "rows.toml"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_rows_end_as_their_programs(tmp_path: Path) -> None:
    origin = tmp_path / "owner+name"
    origin.mkdir()
    (origin / "value.py").write_text("N = 3\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "One"]):
        subprocess.run([*git, *words], cwd=origin, check=True)
    rows = "".join(ROW.format(name=name, program=program) for name, program in PROGRAMS.items())
    (tmp_path / "rows.toml").write_text(rows)
    mirror = ["--mirror", str(tmp_path / "{owner}+{name}")]
    done = run_tool(tmp_path, *mirror)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[2].startswith("| sum | HEAD | by itself | correct |")
    assert lines[3].startswith("| wrong | HEAD | by itself | wrong |")
    assert lines[3].endswith(r"| AssertionError: got 3 \| 4 |")
    assert lines[4].startswith("| crash | HEAD | by itself | crashed |")
    assert "signal 6" in lines[4]
    assert lines[-1] == "3 packages: 1 correct, 1 wrong, 1 crashed."
    # A row that has changed runs again; the others do not.
    (tmp_path / "rows.toml").write_text(rows.replace("os.abort()", "os.times()"))
    done = run_tool(tmp_path, *mirror)
    assert done.stderr.splitlines() == ["crash: correct "]
    assert json.loads((tmp_path / "crash" / "result.json").read_text())["result"] == "correct"
    (tmp_path / "rows.toml").write_text(rows.replace("import os; os.abort()", "import time; time.sleep(99)"))
    done = run_tool(tmp_path, "crash", "--seconds", "5")
    assert "| too slow | 5 | more than 5 s |" in done.stdout


def test_the_documented_table_is_of_the_rows() -> None:
    spec = importlib.util.spec_from_file_location("packages_tool", TOOL / "__main__.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tool
    spec.loader.exec_module(tool)
    table = tool.DOCUMENT.read_text(encoding="utf-8").partition(tool.BEGIN)[2].partition(tool.END)[0]
    lines = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    rows = tool.tomllib.loads((TOOL / "rows.toml").read_text(encoding="utf-8"))
    assert [(line[0][2:], line[1]) for line in lines] == [
        (name, fields["version"][:12]) for name, fields in rows.items()
    ]
    counts = {word: sum(line[3] == word for line in lines) for word in tool.RESULTS}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    assert f"{len(rows)} packages: {said}." in table
    assert all(line[5].rstrip(" |") for line in lines if line[3] not in ("correct", "not run"))
