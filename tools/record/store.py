"""Records as files: what ran, where and when, and the answers, case by case.

``{"about": header, "answers": {case: answer}}`` as JSON, compressed where the name ends in ``.xz``; a checkpoint of
torch has the header as a file of its archive.
"""

from __future__ import annotations

import datetime
import json
import lzma
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

#: What every header has.
ABOUT = ("command", "torch", "cuda", "gpu", "driver", "python", "date")
UNKNOWN = "unknown"
ABOUT_FILE = "/about.json"
DATA = Path(__file__).resolve().parents[2] / "tests" / "data"


def make_header(command: str) -> dict[str, str]:
    """Describe this machine and this moment."""
    import torch

    ours = sys.modules.get("torchdevice_cuda")
    driver_of_ours = ours.driver().name if ours else ""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        driver = UNKNOWN
    return {
        "command": command,
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
        "gpu": torch.cuda.get_device_name() + (f" ({driver_of_ours} driver)" if driver_of_ours else ""),
        "driver": driver,
        "python": sys.version.split()[0],
        "date": datetime.date.today().isoformat(),
    }


def is_real(about: dict[str, str]) -> bool:
    """Tell whether a record was made on a GPU, not on a driver."""
    return not about["gpu"].endswith(" driver)")


def read_file(path: Path) -> dict[str, Any]:
    """Read a whole record."""
    if path.suffix == ".pt":
        with zipfile.ZipFile(path) as archive:
            about = next((name for name in archive.namelist() if name.endswith(ABOUT_FILE)), None)
            return {"about": json.loads(archive.read(about)) if about else {}, "answers": {}}
    text = lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else path.read_text("utf-8")
    return dict(json.loads(text))


def read_answers(path: Path) -> dict[str, Any]:
    """Read the answers of a record."""
    return dict(read_file(path)["answers"])


def write_file(path: Path, about: dict[str, Any], answers: dict[str, Any]) -> None:
    """Write a record, a case a line."""
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(answers[name])}" for name in answers)
    text = f'{{"about": {json.dumps(about)},\n"answers": {{\n{rows}\n}}}}\n'
    if path.suffix == ".xz":
        path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    else:
        path.write_text(text, "utf-8")


def add_header(path: Path, about: dict[str, str]) -> None:
    """Add the header to a checkpoint of torch, which reads its archive by names."""
    with zipfile.ZipFile(path, "a", compression=zipfile.ZIP_STORED) as archive:
        folder = archive.namelist()[0].partition("/")[0]
        archive.writestr(folder + ABOUT_FILE, json.dumps(about))
