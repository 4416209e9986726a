"""The distributions, as people meet them: built, installed from wheels, upgraded, and uninstalled without a trace."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from harness import clean_environment, run
from harness.processes import ROOT

import torchdevice_cuda

from .environments import Environment, build, tree

VERSION = torchdevice_cuda.__version__
HELLO = (
    "import torch; x = torch.ones(2, device='cuda', requires_grad=True); (x * 3).sum().backward(); "
    "print(torch.cuda.is_available(), x.grad.tolist())"
)


def test_the_version_is_in_one_place() -> None:
    done = run([sys.executable, "setup.py", "--version"], environment=clean_environment(), folder=ROOT / "shim")
    assert done.out.strip() == VERSION, done
    listed = subprocess.run(
        ["git", "grep", "-lF", f'"{VERSION}"', "--", "*.py", "*.cfg", "*.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert listed.stdout.split() == ["torchdevice_cuda/_version.py"]


def test_every_file_is_distributed(tmp_path: Path) -> None:
    source = tree(tmp_path / "tree")
    package = (source / "torchdevice_cuda").rglob("*")
    files = {str(path.relative_to(source)) for path in package if path.is_file() and path.suffix != ".md"}
    archive = build(source, "sdist", tmp_path)
    with tarfile.open(archive) as file:
        in_sdist = {name.partition("/")[2] for name in file.getnames()}
        file.extractall(tmp_path, filter="data")
    wheel = build(tmp_path / archive.name.removesuffix(".tar.gz"), "wheel", tmp_path / "wheel")
    assert files - in_sdist == set()
    assert files - set(zipfile.ZipFile(wheel).namelist()) == set()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Built from sdists, as pip and build do where there is no wheel; the native one by its command."""
    folder = tmp_path_factory.mktemp("wheels")
    made: dict[str, Path] = {}
    source = tree(folder / "tree")
    for name, project in (("main", source), ("shim", source / "shim")):
        archive = build(project, "sdist", folder / "sdists")
        with tarfile.open(archive) as file:
            file.extractall(folder / "unpacked", filter="data")
        made[name] = build(folder / "unpacked" / archive.name.removesuffix(".tar.gz"), "wheel", folder / "dist")
    command = [
        sys.executable,
        "-m",
        "torchdevice_cuda",
        "--driver",
        "virtual",
        "--build",
        "--wheel-dir",
        str(folder / "dist"),
    ]
    done = run(command, timeout=900)
    assert done.status == 0, done
    made["native"] = Path(done.out.strip())
    return made


@pytest.mark.slow
def test_contents(wheels: dict[str, Path]) -> None:
    names = {key: set(zipfile.ZipFile(path).namelist()) for key, path in wheels.items()}
    for key, top in (("main", "torchdevice_cuda"), ("native", "torchdevice_cuda_native")):
        assert {name.partition("/")[0].partition("-")[0] for name in names[key]} == {top}
    assert {name for name in names["shim"] if ".dist-info" not in name} == {
        "torchdevice_cuda_shim.py",
        "torchdevice_cuda_shim.pth",
    }
    assert {path.name.split("-")[1].partition("+")[0] for path in wheels.values()} == {VERSION}


@pytest.mark.slow
@pytest.mark.native
def test_install_upgrade_and_uninstall(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    clean = environment.files()
    cache = {"TORCHDEVICE_CACHE_DIR": str(tmp_path / "cache"), "TORCHDEVICE_DRIVER": "virtual"}

    # An older release of both, with a module that is gone by now.
    old = tree(tmp_path / "old", "0.0.1")
    (old / "torchdevice_cuda" / "gone.py").touch()
    (old / "torchdevice_cuda" / "launch" / "scan" / "gone.py").touch()
    older = [build(project, "wheel", tmp_path / "older") for project in (old, old / "shim")]
    environment.pip("install", *older)
    assert environment.run("-m", "torchdevice_cuda", "-V").out.startswith("torchdevice-cuda 0.0.1 ")
    assert len([name for name in environment.files() if name.endswith("gone.py")]) == 2

    environment.pip(
        "install",
        "--upgrade",
        "--find-links",
        wheels["main"].parent,
        "torchdevice-cuda[native]",
        "torchdevice-cuda-shim",
    )
    assert not [name for name in environment.files() if "gone" in name or "0.0.1" in name]
    assert environment.command(["torchdevice-cuda", "-V"], {}).out.startswith(f"torchdevice-cuda {VERSION} ")
    environment.pip("check")

    # No compiler: by the command, and by the shim in a process that knows nothing of us.
    for words, switch in ((["-m", "torchdevice_cuda", "-c", HELLO], {}), (["-c", HELLO], {"TORCHDEVICE_AUTO": "1"})):
        done = environment.run(*words, PATH="/nowhere", CXX="", **cache, **switch)
        assert (done.out, done.err) == ("True [3.0, 3.0]\n", "")

    names = ("torchdevice-cuda", "torchdevice-cuda-native", "torchdevice-cuda-shim")
    environment.pip("uninstall", "--yes", *names)
    assert environment.files() == clean
    done = environment.run("-c", "import torch; print(torch.cuda.is_available())", TORCHDEVICE_AUTO="1")
    assert (done.out, done.err) == ("False\n", "")
    # Only the cache is left, as docs/start.md says.
    assert [path.name.partition("-")[0] for path in (tmp_path / "cache").iterdir()] == ["cuda"]


@pytest.mark.slow
def test_pipx_runs_it(wheels: dict[str, Path], tmp_path: Path) -> None:
    """With all that it requires, of which torch is the most: the one that the tests run with."""
    target = tmp_path / "pipx"
    got = run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), "pipx"], timeout=300)
    if got.status:
        pytest.skip(f"pipx cannot be had: {got.err.strip().splitlines()[-1]}")
    environment = clean_environment(
        PYTHONPATH=str(target), PIPX_HOME=str(tmp_path / "home"), PIPX_BIN_DIR=str(tmp_path / "bin")
    )
    words = ["run", "--spec", str(wheels["main"]), f"--pip-args=-c {ROOT / 'constraints.txt'}", "torchdevice-cuda"]
    code = "import torch; print(torch.ones(2, device='cuda').sum().item())"
    command = [sys.executable, "-m", "pipx", *words, "--driver", "cpu", "-c", code]
    done = run(command, environment=environment, folder=tmp_path, timeout=600)
    assert done.status == 0 and done.out == "2.0\n", done
