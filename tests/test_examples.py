"""The examples, each as its first lines say. They check themselves; some of what they print is looked at, too."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from harness import clean_environment, run, run_forked
from harness.processes import ROOT

EXAMPLES = ROOT / "examples"
OURS = ("-m", "torchdevice_cuda")
#: Plain programs, and some of what each prints. What has numbers in it is what an H200 printed.
PLAIN = {
    "hello_cuda.py": "CUDA available: True",
    "train_digits.py": "of new digits are read",
    "mixed_precision.py": "torch.float16: 0.4541 to 0.1493, scale 4194304",
    "cuda_graphs.py": "replayed:     12.2703 11.2258 12.0896 7.9251 5.8468 3.6067 5.5957 0.9453",
    "same_seed.py": "tensor([0.6130, 0.0101, 0.3984], device='cuda:0')",
}
TESTED_OTHERWISE = {
    "ddp.py",
    "rehearse_llama.py",
    "test_memory_budget.py",
    "test_triton_softmax.py",
    "notebook.ipynb",
    "ci",
}
_EACH = """
import runpy, sys, traceback
for path in sys.argv[1:]:
    print("=====", path, flush=True)
    try:
        runpy.run_path(path, run_name="__main__")
        print("(ended)")
    except Exception:
        traceback.print_exc(file=sys.stdout)
"""


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.name != "__pycache__"} == {*PLAIN, *TESTED_OTHERWISE}


def test_every_recipe_is_listed_and_run() -> None:
    recipes = {path.name for path in (EXAMPLES / "ci").iterdir()}
    assert set(re.findall(r"\.\./examples/ci/([^)]+)\)", (ROOT / "docs/ci.md").read_text())) == recipes
    run_by = (ROOT / "tests/distributions/test_recipes.py").read_text()
    assert [name for name in recipes if f'"{name}"' not in run_by] == []


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """Return the output of each example on the virtual GPU, all in one process to save time."""
    paths = [str(EXAMPLES / name) for name in PLAIN]
    parts = run_forked(*OURS, "--driver", "virtual", "-c", _EACH, *paths, timeout=300).out.split("===== ")[1:]
    return {Path(text.partition("\n")[0]).name: text for text in parts}


@pytest.mark.native
@pytest.mark.parametrize("name", PLAIN)
def test_a_program(name: str, printed: dict[str, str]) -> None:
    assert PLAIN[name] in printed[name] and printed[name].endswith("(ended)\n"), printed[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PLAIN if name != "same_seed.py"])
def test_a_program_on_the_cpu_driver(name: str) -> None:
    """Examples that need a virtual GPU state it at their top."""
    run_forked(*OURS, "--driver", "cpu", EXAMPLES / name, timeout=300)


@pytest.mark.slow
@pytest.mark.native
def test_two_gpus() -> None:
    words = ["--devices", "2", "-m", "torch.distributed.run", "--nproc-per-node", "2", str(EXAMPLES / "ddp.py")]
    done = run_forked(*OURS, "--driver", "virtual", *words, timeout=300)
    assert {line.partition(": loss")[0] for line in done.out.splitlines()} == {"rank 0 on cuda:0", "rank 1 on cuda:1"}


@pytest.mark.slow
@pytest.mark.native
def test_a_memory_budget(tmp_path: Path) -> None:
    """Skipped without us, run with us, and failed by what does not fit."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    path, plugin = str(EXAMPLES / "test_memory_budget.py"), "torchdevice_cuda.integrations.pytest_plugin"
    # As it is installed, or from the checkout, where nobody has told pytest of the plugin.
    environment = clean_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert "3 skipped" in run([*words, path], environment=environment, folder=tmp_path).out
    asked = ["-p", plugin, "--torchdevice", "--torchdevice-driver", "virtual", "--torchdevice-memory", "256MiB"]
    done = run([*words, *asked, path], environment=environment, folder=tmp_path)
    assert "3 passed" in done.out, done


@pytest.mark.native
def test_a_triton_kernel(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    asked = ["-p", "torchdevice_cuda.integrations.pytest_plugin", "--torchdevice", "--torchdevice-driver", "virtual"]
    environment = clean_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    done = run([*words, *asked, str(EXAMPLES / "test_triton_softmax.py")], environment=environment, folder=tmp_path)
    assert "4 passed" in done.out, done


@pytest.mark.slow
@pytest.mark.native
def test_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name, value in clean_environment(TORCHDEVICE_DRIVER="virtual").items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", 4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without what it printed"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    told = ["".join(out.get("text", "") for out in cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]
    assert told[1] == "True cuda\n" and told[3].startswith("virtual: ")
