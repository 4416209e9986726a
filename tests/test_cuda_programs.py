"""tools/programs builds programs of a repository, runs them, and says which were right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_TOOL = Path(__file__).parents[1] / "tools" / "programs"
_SUM = """#include <cstdio>
__global__ void add_up(int* x) {
  __shared__ int s[N];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) for (int i = 0; i < N; ++i) *x += s[i];
}
int main() { int x = 0; add_up<<<1, N>>>(&x); printf("sum %d\\n", x); return STATUS; }
"""
_ROWS = """
[suite]
source = "someone/samples"
version = "{version}"
expect = "sum"
programs = [
  {{folder = "right", smaller = "s/N 999999/N 8/", check = "assert text == 'sum 28\\\\n', text"}},
  {{folder = "unlike", expect = "sum 29"}},
  {{folder = "failing"}},
  {{folder = "textured", refused = "a texture"}},
  {{folder = "bad"}},
]
"""


def _write_samples(folder: Path) -> str:
    texts = {
        "right": "#define N 999999\n" + _SUM.replace("STATUS", "0"),
        "unlike": "#define N 8\n" + _SUM.replace("STATUS", "0"),
        "failing": "#define N 8\n" + _SUM.replace("STATUS", "1"),
        "textured": "cudaTextureObject_t texture;\nint main() {}\n",
        "bad": "int main() { return x; }\n",
    }
    for name, text in texts.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "main.cu").write_text(text)
    git = ["git", "-c", "user.name=someone", "-c", "user.email=someone@example.com", "-C", str(folder)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Add samples"]):
        subprocess.run([*git, *words], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(_TOOL), *words], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
def test_programs_are_built_run_and_listed(tmp_path: Path) -> None:
    version = _write_samples(tmp_path / "someone" / "samples")
    (tmp_path / "rows.toml").write_text(_ROWS.format(version=version))
    words = ["--rows", str(tmp_path / "rows.toml"), "--work", str(tmp_path / "work")]
    done = _run(*words, "--mirror", str(tmp_path / "{owner}" / "{name}"))
    assert done.returncode == 1, done.stderr  # a program was wrong
    lines = {
        line.split(" | ")[0].removeprefix("| "): line for line in done.stdout.splitlines() if "| samples |" in line
    }
    assert "| correct | 1, 0 |" in lines["right"]
    assert "| wrong | 1, 0 |" in lines["unlike"] and "it does not print 'sum 29': sum 28" in lines["unlike"]
    assert "| wrong |" in lines["failing"]
    assert "| refused |" in lines["textured"] and "cudaTextureObject_t is not supported here" in lines["textured"]
    assert "| not built |" in lines["bad"] and "error:" in lines["bad"]
    assert (
        "5 programs: 1 correct, 1 refused, 2 wrong, 1 not built. 3 of 3 kernels with barriers are loops." in done.stdout
    )
    again = _run(*words, "--mirror", "nowhere")  # what has a result is not run again
    assert (again.stdout, again.stderr) == (done.stdout, "")
    unknown = _run(*words, "elsewhere")
    assert unknown.returncode == 2 and "no such row: elsewhere" in unknown.stderr
