"""Environment variables: all that are read are in the table, and what is called like them and is none is an error."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from harness import STOCK, Finished, in_child, python
from harness.processes import ROOT

import torchdevice_cuda
from torchdevice_cuda import settings
from torchdevice_cuda.children import torchdevice_cuda_shim as shim
from torchdevice_cuda.settings import variables

OURS = ("-m", "torchdevice_cuda")
#: A macro of kernels, which no environment has.
MACROS = {"TORCHDEVICE_CUDA"}
#: Where names of variables are read or set; tests misspell some.
SOURCES = ("torchdevice_cuda", "shim", "tools", "examples", "docs", "tests/harness", "README.md", ".ci")
SUFFIXES = {".py", ".cpp", ".h", ".cuh", ".jinja", ".pth", ".sh", ".md", ".yml", ".yaml", ".toml", ".cfg", ""}
#: For every variable that is no setting: a value that can be read, and one that cannot.
VALUES = {
    "TORCHDEVICE_AUTO": ("try", "maybe"),
    "TORCHDEVICE_CACHE_DIR": ("relative/~", "~no-such-user/cache"),
    "TORCHDEVICE_RUNTIME_DIR": ("/dev/shm", "~no-such-user"),
    "TORCHDEVICE_KERNEL_FIBERS": ("on", "sometimes"),
    "TORCHDEVICE_KERNEL_OPTIMIZATION": ("1", "-O1"),
    "TORCHDEVICE_NATIVE_CXXFLAGS": ("-O0 -g", None),
    "TORCHDEVICE_EMULATE_MPS_LACKS": ("heaviside,take,_linalg_eigh", "take, heaviside"),
    "TORCHDEVICE_EMULATE_MPS_LATENCY_US": ("8000", "soon"),
    "TORCHDEVICE_EMULATE_MPS_STORAGE": ("private", "managed"),
    "TORCHDEVICE_COUNT_KERNELS": ("on", "sometimes"),
    "TORCHDEVICE_SANITIZE_FILE": ("findings.jsonl", None),
    "TORCHDEVICE_TOOLKIT_VERSION": ("12.8", "newest"),
}


def names_in_sources() -> set[str]:
    roots = [ROOT / name for name in SOURCES]
    files = [path for root in roots for path in ([root] if root.is_file() else root.rglob("*"))]
    found: set[str] = set()
    for path in files:
        if path.suffix in SUFFIXES and path.is_file() and "__pycache__" not in path.parts:
            text = path.read_text(encoding="utf-8", errors="replace")
            found |= set(re.findall(r"(?<![A-Z0-9_])(?:TORCHDEVICE_[A-Z0-9_]*[A-Z0-9]|TORCH_ALLOW_REDIRECTS)\b", text))
    return found - MACROS - {"TORCHDEVICE_A", "TORCHDEVICE_AUT0"}  # the shim's prefix, and a misspelling in its page


def test_every_variable_in_the_sources_is_in_the_table() -> None:
    known = {name for name in settings.known_variables() if name != "CUDA_VISIBLE_DEVICES"}
    assert names_in_sources() == known
    assert len(settings.known_variables()) == len(set(settings.known_variables()))


def test_every_variable_is_documented() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") + (ROOT / "README.md").read_text(
        encoding="utf-8"
    )
    assert [name for name in settings.known_variables() if f"`{name}`" not in page] == []


def test_the_shim_reads_as_the_table_says() -> None:
    assert (shim._ON, shim._TRY, shim._OFF) == (variables.ON, variables.TRY, variables.OFF)
    assert [name for name in settings.known_variables() if name.startswith(shim._LIKE_IT)] == [shim.VARIABLE]


@pytest.mark.parametrize("variable", variables.VARIABLES, ids=lambda variable: variable.name)
def test_values_of_the_other_variables(variable: variables.Variable) -> None:
    good, bad = VALUES[variable.name]
    settings.load({}, {variable.name: good})
    settings.load({}, {variable.name: ""})
    if bad is not None:
        with pytest.raises(settings.SettingsError) as error:
            settings.load({}, {variable.name: bad})
        assert str(error.value).startswith(f"{variable.name}={bad!r} cannot be read; allowed: {variable.allowed}")


@pytest.mark.parametrize("name", ["TORCHDEVICE_CACHE_DIR", "TORCHDEVICE_RUNTIME_DIR"])
def test_folders_are_not_blank(name: str) -> None:
    with pytest.raises(settings.SettingsError, match=f"^{name}='  ' cannot be read; allowed: a folder$"):
        settings.load({}, {name: "  "})


#: Names that are none, and what may have been meant.
MISSPELT = {
    "TORCHDEVICE_DRVIER": "TORCHDEVICE_DRIVER",
    "TORCHDEVICE_DEVICE": "TORCHDEVICE_DEVICES",
    "TORCHDEVICE_CACHEDIR": "TORCHDEVICE_CACHE_DIR",
    "TORCHDEVICE_driver": "TORCHDEVICE_DRIVER",
    "TORCHDEVICE_": None,
    "TORCHDEVICE_QUX": None,
    "TORCH_ALLOW_REDIRECT": "TORCH_ALLOW_REDIRECTS",
}


@pytest.mark.parametrize("name", MISSPELT)
def test_misspelt_variables_are_errors(name: str) -> None:
    with pytest.raises(settings.SettingsError) as error:
        settings.load({}, {name: "cpu"})
    hint = f" did you mean {MISSPELT[name]}?" if MISSPELT[name] else ""
    listed = "docs/settings.md and python -m torchdevice_cuda --help list them"
    assert str(error.value) == f"there is no variable {name} (set to 'cpu');{hint} {listed}"


def test_variables_of_others_are_left_alone() -> None:
    environ = {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "_TORCHDEVICE_X": "1"}
    assert settings.load({}, environ) == settings.Settings()


@pytest.mark.parametrize("program", [("-c", "print('ran')"), ("--info",), ("--doctor",), ("nvidia-smi",)], ids=" ".join)
def test_the_command_line_ends_with_one_line(program: tuple[str, ...]) -> None:
    done = python(*OURS, *program, environment={"TORCHDEVICE_DRVIER": "cpu"}, check=False)
    with pytest.raises(settings.SettingsError) as error:
        settings.load({}, {"TORCHDEVICE_DRVIER": "cpu"})
    assert done == Finished(2, "", f"torchdevice-cuda: {error.value}\n")


def test_help_lists_them_whatever_is_set() -> None:
    done = python(*OURS, "--help", environment={"TORCHDEVICE_DRVIER": "cpu"})
    public = [variable.name for variable in variables.VARIABLES if not variable.is_internal]
    assert [name for name in public if name not in done.out] == []
    assert "TOOLKIT" not in done.out


def activates() -> str:
    os.environ["TORCHDEVICE_DRVIER"] = "cpu"
    try:
        torchdevice_cuda.activate()
    except settings.SettingsError as error:
        return str(error)
    return "it did"


def test_activate_raises() -> None:
    assert "did you mean TORCHDEVICE_DRIVER?" in in_child(activates, STOCK)


@pytest.mark.parametrize("auto, status", [("1", 2), ("try", 0)])
def test_under_the_shim(auto: str, status: int, tmp_path: Path) -> None:
    folder = str(ROOT / "shim")
    environment = {"TORCHDEVICE_AUTO": auto, "TORCHDEVICE_DRVIER": "cpu", "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    done = python("-c", "import torch; print(torch.cuda.is_available())", environment=environment, check=False)
    assert (done.status, done.out) == (status, "" if status else "False\n")
    assert re.fullmatch(r"torchdevice-cuda-shim: [^\n]*there is no variable TORCHDEVICE_DRVIER [^\n]*\n", done.err)


def test_under_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    words = ("-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path))
    done = python(*words, "--torchdevice", environment={"TORCHDEVICE_DRVIER": "cpu"}, check=False)
    assert done.status == 4
    assert "ERROR: --torchdevice: there is no variable TORCHDEVICE_DRVIER" in done.err
    done = python(*words, "--torchdevice", "--torchdevice-drvier=cpu", check=False)
    assert done.status == 4
    assert "unrecognized arguments: --torchdevice-drvier=cpu" in done.err
