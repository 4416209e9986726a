"""Take the pictures of docs/images: reports of programs, a notebook, the site. `python tools/screenshots [NAME...]`.

Needs Chromium and ".[browser]"; the notebook also ".[examples]" and nbconvert, the site ".[docs]".
"""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).with_name("programs")
IMAGES = ROOT / "docs" / "images"
WIDTH = 1240
sys.path.insert(0, str(ROOT / "tests"))

from harness.browser import browser, reason_for_none, shoot  # noqa: E402
from terminals import write_page  # noqa: E402

CELLS = (
    "%env TORCHDEVICE_GPU=t4\n%load_ext torchdevice_cuda\nimport torch",
    "model = torch.nn.Linear(512, 512).cuda()\nx = torch.randn(64, 512)",
    "%%torchdevice_report\nfor _ in range(20):\n    y = model(x.cuda()).relu()\n    total = y.sum().item()\n"
    'print("sum", total)',
)


def _report(folder: Path, program: str, *options: str) -> Path:
    """Run a program with a report, and return the page. The program's folder is the current one, for short names."""
    page = folder / f"{program}.html"
    command = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", *options, "--report", str(page)]
    subprocess.run([*command, f"{program}.py"], cwd=PROGRAMS, check=True, stdout=subprocess.DEVNULL)
    return page


def _train(folder: Path) -> Path:
    return _report(folder, "train", "--gpu", "t4")


def _out_of_memory(folder: Path) -> Path:
    return _report(folder, "short_of_memory", "--gpu", "t4", "--memory", "2GiB")


def _four_gpus(folder: Path) -> Path:
    return _report(folder, "four_gpus", "--devices", "4", "--gpu", "a100-40")


def _notebook(folder: Path) -> Path:
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    page = folder / "notebook.html"
    page.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    return page


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def _before_after(folder: Path) -> Path:
    page = folder / "before-after.html"
    page.write_text(write_page(PROGRAMS / "hello.py"), encoding="utf-8")
    return page


def _site(folder: Path) -> str:
    """Build the site and serve it: pages from files have no search."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder / "site")]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    handler = functools.partial(_Quiet, directory=str(folder / "site"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


#: By the name of an image: the page, whether it is dark, and the height.
PICTURES: dict[str, tuple[Callable[[Path], Path | str], bool, int]] = {
    "before-after": (_before_after, False, 1000),
    "report": (_train, False, 1700),
    "report-dark": (_train, True, 1700),
    "report-out-of-memory": (_out_of_memory, False, 1050),
    "report-4-gpus": (_four_gpus, False, 1300),
    "notebook": (_notebook, False, 1650),
    "site": (_site, False, 1250),
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in PICTURES]
    if unknown:
        print(f"there is no picture {unknown[0]!r}; allowed: {', '.join(PICTURES)}", file=sys.stderr)
        return 2
    if reason_for_none():
        print(reason_for_none(), file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        for name in names or PICTURES:
            make, dark, height = PICTURES[name]
            page = make(Path(temporary))
            with browser(dark, WIDTH) as driver:
                driver.get(page if isinstance(page, str) else page.as_uri())
                shoot(driver, IMAGES / f"{name}.png", WIDTH, height)
            print(IMAGES / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
