"""``%load_ext torchdevice_cuda`` in a real IPython and in a real kernel of Jupyter's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from harness import STOCK, VIRTUAL, ChildConfig, in_child
from native.compilers import Bench

pytestmark = [pytest.mark.native, pytest.mark.slow]

CELL = """%%torchdevice_report
y = torch.ones(256, device="cuda")
total = (y * 2).sum().item()
print("said", total)
"""


def shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell

    return InteractiveShell.instance()


def in_a_terminal(first: str) -> list[Any]:
    """Load, run a cell, unload; what the cell showed, and what torch is afterwards."""
    from IPython.utils.capture import capture_output

    ip = shell()
    ip.run_cell(first)
    ip.run_cell("%load_ext torchdevice_cuda\nimport torch\nx = torch.ones(8, device='cuda')")
    with capture_output() as shown:
        ok = ip.run_cell(CELL).success
    with capture_output() as failed:
        bad = ip.run_cell(CELL.replace("print", "1 / 0  #")).success
    with capture_output() as whole:
        ip.run_cell("%torchdevice_report")
    ip.run_cell("%unload_ext torchdevice_cuda")
    ip.run_cell("left = torch.cuda.is_available()")
    gone = "torchdevice_report" not in ip.magics_manager.magics["cell"]
    displayed = "".join(output.data["text/plain"] for output in failed.outputs)
    return [
        ok,
        shown.stdout,
        bad,
        failed.stdout + displayed,
        whole.stdout,
        ip.user_ns["left"],
        ip.user_ns["total"],
        gone,
    ]


@pytest.mark.parametrize("first", ["import torch", "pass"], ids=["torch imported before", "and not"])
def test_a_cell_in_a_terminal(first: str) -> None:
    pytest.importorskip("IPython")
    ok, shown, bad, failed, whole, left, total, gone = in_child(in_a_terminal, STOCK, first)
    assert (ok, bad, left, total, gone) == (True, False, False, 512.0, True)
    assert shown.index("said 512.0") < shown.index("What ran on the GPU: 4 calls")
    assert "1 waits" in shown and "Device requests on the virtual driver: 1\n" in shown
    assert "ZeroDivisionError" in failed and "What ran on the GPU: 4 calls" in failed
    assert "What ran on the GPU: 9 calls" in whole, "the session has the cells' work too, and what was outside of them"


def wrongly() -> list[str]:
    """Return what is shown of errors: a driver that is not here, and words after the magic."""
    from IPython.utils.capture import capture_output

    os.environ["TORCHDEVICE_DRIVER"] = "cudda"
    ip = shell()
    shown = []
    for cell in ("%load_ext torchdevice_cuda", "%torchdevice_report now"):
        with capture_output() as output:
            ip.run_cell(cell)
        shown.append(output.stdout + output.stderr)
        os.environ["TORCHDEVICE_DRIVER"] = "cpu"
        ip.run_cell("%load_ext torchdevice_cuda")
    return shown


def test_errors_are_one_line() -> None:
    pytest.importorskip("IPython")
    absent, words = in_child(wrongly, STOCK)
    assert len(absent.strip().splitlines()) == 1 and "TORCHDEVICE_DRIVER" in absent and "allowed" in absent
    assert words.strip() == "ValueError: %torchdevice_report takes no arguments, not 'now': remove it"


def under_an_activation() -> str:
    from IPython.utils.capture import capture_output

    ip = shell()
    ip.run_cell("%load_ext torchdevice_cuda\nimport torch")
    with capture_output() as shown:
        ip.run_cell(CELL)
    ip.run_cell("%unload_ext torchdevice_cuda")
    ip.run_cell("assert torch.cuda.is_available()")
    return str(shown.stdout)


def test_a_process_that_is_active_already() -> None:
    pytest.importorskip("IPython")
    shown = in_child(under_an_activation, VIRTUAL)
    assert "What ran on the GPU: 4 calls" in shown
    assert "Device requests are not counted: torchdevice_cuda was active before a report was asked for." in shown


def in_a_kernel(folder: str) -> list[dict[str, Any]]:
    """Return the outputs of a notebook's last cell."""
    import nbformat
    from nbclient import NotebookClient

    cells = ["import torch", "%load_ext torchdevice_cuda", CELL]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return [dict(output) for output in notebook.cells[-1].outputs]


def test_a_cell_in_a_notebook(tmp_path: Path) -> None:
    for needed in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(needed)
    place: ChildConfig = STOCK
    stream, result = in_child(in_a_kernel, place, str(tmp_path))
    assert stream["text"] == "said 512.0\n"
    html, plain = result["data"]["text/html"], result["data"]["text/plain"]
    assert "<table" in html and "What ran on the GPU: 4 calls" in html
    assert "What ran on the GPU: 4 calls" in plain
    assert '<canvas class="timeline"' in html and '<svg class="chart"' in html and "It ran on the GPU" in html
    assert "In[3]:3" in plain and "total = (y * 2).sum().item()" in html, "the third line of the third cell"
    assert "ipykernel" not in html + plain


def in_a_kernel_that_displays() -> str:
    """Return the report of a session whose second cell shows a tensor."""
    import nbformat
    from nbclient import NotebookClient

    cells = ["%load_ext torchdevice_cuda\nimport torch", "torch.ones(3).cuda()", "%torchdevice_report"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    os.environ["TORCHDEVICE_DRIVER"] = "virtual"
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return str(notebook.cells[-1].outputs[-1]["data"]["text/plain"])


def test_the_display_of_a_tensor_counts_for_its_cell() -> None:
    for needed in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(needed)
    plain = in_child(in_a_kernel_that_displays, STOCK)
    assert "the host waits" in plain and "In[2]:1" in plain and ".py:" not in plain


def in_a_kernel_that_builds(folder: str) -> list[dict[str, Any]]:
    """Return the outputs of a cell that needs the device, where a compiler makes something that is none."""
    import nbformat
    from nbclient import NotebookClient

    Bench(Path(folder)).set(module="whole")
    os.environ["TORCHDEVICE_DRIVER"] = "virtual"
    cells = ["%load_ext torchdevice_cuda", "import torch"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": folder}}
    ).execute()
    return [dict(output) for output in notebook.cells[-1].outputs]


def test_a_build_is_seen_in_the_cell(tmp_path: Path) -> None:
    for needed in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(needed)
    outputs = in_child(in_a_kernel_that_builds, STOCK, str(tmp_path))
    said = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    assert "building the native device (cuda)" in said and "built in " in said
    assert "\r" in said and "[1/" not in said, "a bar, not lines"


def interrupted() -> str:
    from IPython.utils.capture import capture_output

    ip = shell()
    with capture_output() as shown:
        ip.run_cell("from torchdevice_cuda.native.processes import BuildInterrupted\nraise BuildInterrupted")
    return str(shown.stdout + shown.stderr)


def test_an_interrupted_build_is_one_line() -> None:
    pytest.importorskip("IPython")
    (line,) = in_child(interrupted, STOCK).strip().splitlines()
    assert line.startswith("KeyboardInterrupt: interrupted while the native device was being built")
