"""``python -m torchdevice_cuda plan``: GPUs for a program, from one rehearsal."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import python, run_forked

from torchdevice_cuda.launch import cli
from torchdevice_cuda.rehearsal.plan import judge
from torchdevice_cuda.rehearsal.steps import Memory

PLAN = ("-m", "torchdevice_cuda", "plan")
LLAMA = str(Path(__file__).parents[2] / "examples" / "rehearse_llama.py")
#: Bound by launches: thousands of small kernels.
LAUNCHES = """
import torch
x, p = torch.zeros(8, device="cuda"), torch.nn.Parameter(torch.zeros(8, device="cuda"))
optimizer = torch.optim.SGD([p], 0.1)
for step in range(4):
    p.grad = x.clone()
    for _ in range(2000):
        x.add_(1)
    optimizer.step()
"""


def read_rows(out: str) -> dict[str, list[str]]:
    """Return the cells of each GPU of the table."""
    lines = [line for line in out.splitlines() if " GB  " in line]
    return {line.split()[0]: [cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines}


def test_a_plan_says_where_a_large_model_fits_and_what_it_costs(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("h200 = 3.6\n")
    page = tmp_path / "plan.html"
    options = ("--gpus", "t4,a100-40,a100-80,h200", "--prices", str(prices), "--html", str(page))
    done = python(*PLAN, *options, LLAMA, "--steps", "2", timeout=180)
    assert "step 1: " in done.out and "parameters 13.48, gradients 13.48, optimizer 26.95" in done.out
    rows = read_rows(done.out)
    assert list(rows) == ["t4", "a100-40", "a100-80", "h200"]
    assert [row[4] for row in rows.values()] == ["no", "no", "yes", "yes"]
    assert "shard over 2 GPUs (FSDP)" in rows["a100-40"][-1]
    times = {key: float(row[5].removesuffix(" ms")) for key, row in rows.items()}
    # An A100 has 312 TFLOPS in bfloat16, an H200 989, and a T4 none.
    assert 2 < times["a100-80"] / times["h200"] < 4 and times["t4"] > 10 * times["a100-80"]
    assert float(rows["h200"][7]) == pytest.approx(times["h200"] / 1000, abs=0.01)  # 0.1 cents a second
    assert rows["h200"][6] == "tensor cores"
    html = page.read_text()
    assert html.startswith("<!doctype html>") and "<td>a100-80</td>" in html and "http" not in html


def test_a_program_of_small_kernels_is_bound_by_launches() -> None:
    rows = read_rows(run_forked(*PLAN, "--gpus", "h200", "-c", LAUNCHES).out)
    assert rows["h200"][4] == "yes" and rows["h200"][6] in ("launches", "host: Python, data loading")
    assert float(rows["h200"][5].removesuffix(" ms")) > 2000 * 0.0025


@pytest.mark.parametrize(
    ("memory", "verdict", "advice"),
    [
        (Memory(80, 90, 10, 10, 20), "yes", ""),
        (Memory(80, 110, 10, 10, 20), "tight", "expandable_segments"),
        (Memory(160, 170, 10, 10, 20), "no", "50% of the activations fit"),
        (Memory(160, 170, 40, 40, 80), "no", "shard over 2 GPUs"),
    ],
)
def test_what_would_help(memory: Memory, verdict: str, advice: str) -> None:
    found = judge(memory, 100)
    assert found[0] == verdict and advice in found[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "plan needs a program after it"),
        (["--prices"], "--prices needs a value; allowed: a TOML file"),
        (["--info"], "plan needs a program after it"),
    ],
)
def test_a_wrong_command_line_is_one_message(words: list[str], message: str) -> None:
    with pytest.raises(cli.UsageError, match=message):
        cli.parse(["plan", *words])


def test_an_unknown_gpu_is_one_message() -> None:
    done = run_forked(*PLAN, "--gpus", "h2000", "-c", "pass", check=False)
    assert done.status != 0 and "there is no GPU 'h2000'" in done.err.splitlines()[-1]


def test_a_plan_of_many_ranks_is_refused() -> None:
    done = run_forked(*PLAN[:2], "--world", "8", *PLAN[2:], "-c", "pass", check=False)
    assert done.status != 0 and "a plan is for one GPU; for many, rehearse on each" in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--prices", "h200 = nan", "the price h200 = nan is not a number of at least 0"),
        ("--prices", "h200 = '3'", "the price h200 = '3' is not a number of at least 0"),
        ("--prices", "h2000 = 3", "there is no GPU 'h2000'"),
        ("--prices", "h200 =", "cannot be read"),
        ("--html", "", "cannot be written (Is a directory); allowed: a path that can be written"),
    ],
)
def test_a_wrong_file_is_one_message_before_the_program_runs(
    option: str, text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    path = tmp_path if option == "--html" else file
    done = run_forked(*PLAN, option, str(path), "-c", "print('it ran')", check=False)
    assert done.status == 2 and message in done.err.splitlines()[-1] and "it ran" not in done.out


def test_a_plan_says_that_the_program_failed_or_used_no_gpu() -> None:
    assert run_forked(*PLAN, "-c", "pass").out == "No plan: the program used no GPU\n"
    done = run_forked(*PLAN, "--gpus", "t4", "-c", "import torch; torch.ones(9, device='cuda') + 1; 1 / 0", check=False)
    assert done.status == 1 and "Plan from 1 rehearsed step, until the program failed" in done.out
    assert "Times of the GPU are predictions, not measurements: the median error of kernels is 5%" in done.out
