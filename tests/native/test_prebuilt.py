"""Libraries that came compiled: made into a wheel by one command, found before a compiler, and only if they fit."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import clean_environment, python, run
from harness.processes import ROOT

import torchdevice_cuda
from torchdevice_cuda.native import build, prebuilt, toolchain, wheel
from torchdevice_cuda.native.prebuilt import DISTRIBUTION, MANIFEST, PACKAGE

from .compilers import Bench, damage, temporary


def unpack(made: Path, folder: Path) -> Path:
    """As pip does; the package's folder."""
    with zipfile.ZipFile(made) as archive:
        archive.extractall(folder)
    return folder / PACKAGE


@pytest.fixture
def installed(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel of a library that a script made, unpacked on the path; the cache is empty again, and no compiler left."""
    made = build.library("cuda", say=lambda line: None)
    torch = toolchain.installed_torch().version
    package = unpack(wheel.write(tmp_path / "wheels", torchdevice_cuda.__version__, torch, {"cuda": made}), tmp_path)
    shutil.rmtree(bench.cache)
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.syspath_prepend(str(tmp_path))
    return package


def test_a_wheel_is_what_installers_read(tmp_path: Path) -> None:
    done = python(
        "-m", "torchdevice_cuda", "--driver", "virtual", "--build", "--wheel-dir", tmp_path / "new" / "wheels"
    )
    made = Path(done.out.strip())
    torch = toolchain.installed_torch().version
    python_tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    version = f"{torchdevice_cuda.__version__}+torch{torch.replace('+', '.')}"
    assert made.name == f"{PACKAGE}-{version}-{python_tag}-{python_tag}-{platform}.whl"
    with zipfile.ZipFile(made) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    metadata = files[f"{PACKAGE}-{version}.dist-info/METADATA"].decode()
    assert f"Requires-Dist: torch=={torch}\n" in metadata
    assert f"Requires-Dist: torchdevice-cuda=={torchdevice_cuda.__version__}\n" in metadata
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(files[f"{PACKAGE}-{version}.dist-info/RECORD"].decode()))}
    assert rows.keys() == files.keys()
    for name, content in files.items():
        if not name.endswith("/RECORD"):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert rows[name] == [f"sha256={digest}", str(len(content))]
    all_of_it = {prebuilt.name_entry("cuda", part): path for part, path in build.libraries("cuda").items()}
    again = wheel.write(tmp_path / "again", torchdevice_cuda.__version__, torch, all_of_it)
    assert again.read_bytes() == made.read_bytes()
    assert not [path for path in made.parent.iterdir() if path != made]


@pytest.mark.native
def test_the_virtual_gpu_works_without_a_compiler(tmp_path: Path) -> None:
    """Started by us, and by the shim, which never compiles. Nothing is written where the wheel is."""
    torch = toolchain.installed_torch().version
    made = wheel.write(tmp_path, torchdevice_cuda.__version__, torch, {"cuda": build.library("cuda")})
    package = unpack(made, tmp_path / "site")
    before = sorted(package.rglob("*"))
    code = (
        "import torch\n"
        "x = torch.ones(3, device='cuda', requires_grad=True)\n"
        "(x * 2).sum().backward()\n"
        "import torchdevice_cuda\n"
        "driver = torchdevice_cuda.driver()\n"
        "print(x.device, x.grad.tolist(), dict(driver.describe())['native part'])\n"
    )
    environment = clean_environment(TORCHDEVICE_CACHE_DIR=str(tmp_path / "cache"), PATH=str(tmp_path))
    environment.pop("CXX", None)
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "site"), str(ROOT / "shim"), str(ROOT)])
    shim = {**environment, "TORCHDEVICE_AUTO": "1", "TORCHDEVICE_DRIVER": "virtual"}
    for words, variables in ((["-m", "torchdevice_cuda", "--driver", "virtual"], environment), ([], shim)):
        done = run([sys.executable, *words, "-c", code], environment=variables)
        assert (done.status, done.err) == (0, "")
        said = f"({DISTRIBUTION} {torchdevice_cuda.__version__})"
        assert done.out.startswith("cuda:0 [2.0, 2.0, 2.0]") and str(package) in done.out and said in done.out
    assert [path for path in sorted(package.rglob("*")) if path.suffix != ".pyc"] == before
    # It is the wheel that it works by.
    environment["PYTHONPATH"] = str(ROOT)
    done = run([sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "-c", code], environment=environment)
    assert done.status == 2 and "a C++17 compiler is needed" in done.err


def test_it_is_found_before_the_compiler(installed: Path, bench: Bench) -> None:
    path = build.library("cuda")
    assert path == build.library("cuda", build=False) and path.is_relative_to(installed)
    assert not bench.cache.exists()


def _manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(package: Path) -> None:
        file = package / MANIFEST
        manifest = json.loads(file.read_text())
        change(manifest)
        file.write_text(json.dumps(manifest))

    return apply


def _another(**facts: str) -> Callable[[Path], None]:
    """Return a wheel that was made of, or for, something else: its key tells, the facts say what."""

    def change(manifest: dict[str, Any]) -> None:
        manifest.update(facts)
        manifest["libraries"]["cuda"]["key"] = "0" * 20

    return _manifest(change)


UNFIT: dict[str, tuple[Callable[[Path], None], str]] = {
    "another torch": (_another(torch="2.5.0"), r"is for torch 2\.5\.0, and \S+ is installed"),
    "another Python": (_another(python="cpython-39-x"), "is for the Python cpython-39-x, and this is cpython-"),
    "other sources": (_another(sources="00"), "is made from other sources than these"),
    "other flags": (_another(), "was compiled with other flags"),
    "another kind": (
        _manifest(lambda m: m["libraries"].update(mps=m["libraries"].pop("cuda"))),
        "has no library cuda, only mps",
    ),
    "damaged": (lambda package: damage(next(package.glob("*/*.so"))), "is damaged: its digest is not the manifest's"),
    "gone": (lambda package: next(package.glob("*/*.so")).unlink(), "cannot be opened: No such file"),
    "a pipe": (lambda package: _pipe(next(package.glob("*/*.so"))), "is not a plain file"),
    "no manifest": (lambda package: (package / MANIFEST).unlink(), "cannot be read: FileNotFoundError"),
    "not JSON": (lambda package: (package / MANIFEST).write_text("{"), "cannot be read: JSONDecodeError"),
    "nothing in it": (lambda package: (package / MANIFEST).write_text("{}"), "cannot be read: KeyError"),
    "a list": (lambda package: (package / MANIFEST).write_text("[]"), "cannot be read: TypeError"),
    "no texts": (_manifest(lambda m: m["libraries"]["cuda"].update(file=3)), "is not described in texts"),
}


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(("change", "words"), UNFIT.values(), ids=UNFIT)
def test_a_library_that_does_not_fit_is_refused_with_the_reason(
    change: Callable[[Path], None], words: str, installed: Path, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    change(installed)
    with caplog.at_level("INFO", "torchdevice_cuda"), pytest.raises(build.BuildError, match=rf"missing; .*{words}"):
        build.library("cuda", build=False)
    assert DISTRIBUTION in caplog.text and "so it is not used" in caplog.text
    # Where there is a compiler it is compiled, and said why.
    bench.set()
    said: list[str] = []
    assert build.library("cuda", say=said.append).is_relative_to(bench.cache)
    assert DISTRIBUTION in said[0]


def load_one_that_does_not_load() -> list[str]:
    """Linked where the C++ library is newer, for instance. What is compiled here instead loads."""
    with temporary() as bench:
        bench.set(module="int nothing;")
        made = build.library("cuda", say=lambda line: None)
        torch = toolchain.installed_torch().version
        unpack(wheel.write(bench.folder, torchdevice_cuda.__version__, torch, {"cuda": made}), bench.folder / "site")
        shutil.rmtree(bench.cache)
        bench.set(module="whole")
        sys.path.insert(0, str(bench.folder / "site"))
        said: list[str] = []
        module: Any = build.load("cuda", say=said.append)
        return [module.name, build.origin("cuda").otherwise, said[0]]


def test_one_that_does_not_load_is_compiled_instead() -> None:
    code = "from native.test_prebuilt import *; print(*load_one_that_does_not_load(), sep='\\n')"
    name, otherwise, said = python("-c", code, environment={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}).out.splitlines()
    assert name == "whole" and said == otherwise
    assert "does not load: " in otherwise and otherwise.endswith(f"of {DISTRIBUTION} {torchdevice_cuda.__version__}")


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = python(
        "-m", "torchdevice_cuda", "--driver", "virtual", "--build", "--wheel-dir", tmp_path / "file", check=False
    )
    assert done.status == 2 and f"the wheel cannot be written to {tmp_path / 'file'}" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--wheel-dir", "x"], "--wheel-dir belongs to --build, which comes before it; add that"),
        (["--build", "--wheel-dir"], "--wheel-dir needs a value"),
        (["--build", "--wheel-dir="], "--wheel-dir needs a value"),
    ],
)
def test_wheel_dir_belongs_to_build(words: list[str], said: str) -> None:
    from torchdevice_cuda.launch import cli

    with pytest.raises(cli.UsageError, match=said):
        cli.parse(words)
    assert cli.parse(["--build", "train.py"]).value == "", "a program's name is no folder for wheels"
    assert cli.parse(["--build", "--wheel-dir=x", "train.py"]).value == "x"
