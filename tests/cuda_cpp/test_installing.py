"""Each way to install a package that has a kernel: the package is in the folder ``package``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from distributions.environments import Environment, build, tree
from harness import Finished, clean_environment, run, run_forked

from torchdevice_cuda.launch import isolation

PACKAGE = Path(__file__).with_name("package")
USE = "import tiny_cuda, torch; print(tiny_cuda.twice(torch.arange(4.0, device='cuda')).tolist())"
DOUBLED = "[0.0, 2.0, 4.0, 6.0]\n"
SETTINGS = {"TORCHDEVICE_DRIVER": "virtual", "TORCHDEVICE_BUILD": "1"}
#: Settings that the package is used with: what is built with some works with the others.
ON_MPS = {"TORCHDEVICE_DRIVER": "mps", "TORCHDEVICE_EMULATE_MPS": "1", "TORCHDEVICE_BUILD": "1"}
USED = {
    "virtual": SETTINGS,
    **{mode: {**ON_MPS, "TORCHDEVICE_EMULATE_MPS_STORAGE": mode} for mode in ("shared", "private")},
}
everywhere = pytest.mark.parametrize("settings", USED.values(), ids=USED)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a copy of the package: builds write into its folder."""
    return shutil.copytree(PACKAGE, tmp_path / "package")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("wheels")
    source = tree(folder / "tree")
    return [build(project, "wheel", folder / "dist") for project in (source, source / "shim")]


@pytest.fixture
def environment(tmp_path: Path, wheels: list[Path]) -> Environment:
    """Return an environment with torchdevice_cuda and the shim."""
    made = Environment(tmp_path / "environment")
    found = importlib.util.find_spec("_distutils_hack")  # setuptools imports it, and the links lack it
    assert found is not None and found.origin is not None
    (_seen(made) / "_distutils_hack").symlink_to(Path(found.origin).parent)
    made.pip("install", "--no-deps", *wheels)
    return made


def _seen(environment: Environment) -> Path:
    """Return the folder of links to the tester's packages."""
    return environment.folder.with_name(f"{environment.folder.name}-seen")


def _write_link(folder: Path, name: str, seen: Path) -> None:
    """Write a wheel that brings the tester's packages by a link, instead of one of gigabytes."""
    version = importlib.metadata.version(name).partition("+")[0]
    info = f"{name}-{version}.dist-info"
    files = {
        f"link_{name}.pth": f"{seen}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": importlib.metadata.distribution(name).read_text("entry_points.txt") or "",
    }
    files[f"{info}/RECORD"] = "".join(f"{each},,\n" for each in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for each, text in files.items():
            wheel.writestr(each, text)


def _in_folder(folder: Path, settings: dict[str, str], *words: str) -> Finished:
    return run([sys.executable, *words], environment=clean_environment(**settings), folder=folder, timeout=600)


@pytest.mark.slow
@pytest.mark.native
@everywhere
def test_setup_py_builds_in_place(package: Path, settings: dict[str, str]) -> None:
    built = _in_folder(package, settings, "-m", "torchdevice_cuda", "setup.py", "build_ext", "--inplace")
    assert built.status == 0, built
    for name, others in USED.items():
        done = _in_folder(package, others, "-m", "torchdevice_cuda", "-c", USE)
        assert done.out == DOUBLED, (name, done)


@pytest.mark.slow
@pytest.mark.native
@everywhere
def test_pip_without_isolation(environment: Environment, package: Path, settings: dict[str, str]) -> None:
    command = ("-m", "torchdevice_cuda", "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index")
    environment.run(*command, package, timeout=600, **settings)
    assert environment.run("-m", "torchdevice_cuda", "-c", USE, **settings).out == DOUBLED


@pytest.mark.slow
@pytest.mark.native
def test_pip_with_isolation(environment: Environment, package: Path, tmp_path: Path) -> None:
    """The shim reaches the environment that pip makes, and pip takes the package itself off the path there."""
    index = tmp_path / "index"
    index.mkdir()
    for name in ("setuptools", "torch"):
        _write_link(index, name, _seen(environment))
    variables = {**SETTINGS, "TORCHDEVICE_AUTO": "1", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    environment.run("-m", "pip", "install", "--no-deps", package, timeout=600, **variables)
    assert environment.run("-c", USE, **SETTINGS, TORCHDEVICE_AUTO="1").out == DOUBLED


@pytest.mark.slow
@pytest.mark.native
def test_uv(environment: Environment, package: Path) -> None:
    uv = pytest.importorskip("uv").find_uv_bin()
    command = [uv, "pip", "install", "--offline", "--no-deps", "--no-build-isolation", "--python"]
    words = [*command, str(environment.python), str(package)]
    environment.command(words, {**SETTINGS, "TORCHDEVICE_AUTO": "1"}, timeout=600)
    assert environment.run("-c", USE, **SETTINGS, TORCHDEVICE_AUTO="1").out == DOUBLED


@pytest.mark.slow
@pytest.mark.native
@everywhere
def test_load(package: Path, tmp_path: Path, settings: dict[str, str]) -> None:
    source = package / "tiny_cuda" / "twice.cu"
    code = (
        "import torch; from torch.utils.cpp_extension import load\n"
        f"load('tiny', [{str(source)!r}], is_python_module=False)\n"
        "print(torch.ops.tiny_cuda.twice(torch.arange(4.0, device='cuda')).tolist())"
    )
    done = run(
        [sys.executable, "-m", "torchdevice_cuda", "-c", code],
        environment=clean_environment(**settings, TORCH_EXTENSIONS_DIR=str(tmp_path / "extensions")),
        timeout=600,
    )
    assert done.out == DOUBLED, done


ISOLATED = "torchdevice-cuda: pip builds in an environment of its own"


@pytest.mark.skipif(isolation.is_shim_installed(), reason="the shim reaches pip's environments")
@pytest.mark.parametrize(
    ("words", "variables", "is_told"),
    [
        (["install", "--help"], {}, True),
        (["--quiet", "wheel", "--help"], {}, True),
        (["install", "--no-build-isolation", "--help"], {}, False),
        (["install", "--help"], {"PIP_NO_BUILD_ISOLATION": "0"}, False),
        (["list", "--help"], {}, False),
    ],
)
def test_isolation_is_told_of(words: list[str], variables: dict[str, str], is_told: bool) -> None:
    """Where the shim is not installed, pip's environment would build without kernels, and say something else."""
    environment = {**os.environ, **variables}
    done = run_forked("-m", "torchdevice_cuda", "--driver", "cpu", "-m", "pip", *words, environment=environment)
    assert (ISOLATED in done.err) is is_told
