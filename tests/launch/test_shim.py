"""The shim: real python processes in a virtual environment that has it installed, and others that find it by path."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from harness import Finished, run
from harness.processes import ROOT

from .running import PROGRAMS, environment, make_environment, our_packages, write

SHIM = ROOT / "shim"
CHILDREN = ROOT / "torchdevice_cuda" / "children"
#: A torch and a torchdevice_cuda small enough to start hundreds of times: what the shim may know of them, and no more.
FAKES = Path(__file__).with_name("fakes")
CHAINING = Path(__file__).with_name("chaining")
LOOK = (PROGRAMS / "look.py").read_text()
ACTIVATED = "['torchdevice_cuda_shim'] Finder ['activate', 'find torch']\n"
FIRST_FINDER = "import sys; print(type(sys.meta_path[0]).__name__)"
WATCHES = "import sys; print([type(finder).__name__ for finder in sys.meta_path].count('TorchWatch'))"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of an environment in which pip has installed the shim; it sees our packages, setuptools for one."""
    return make_environment(tmp_path_factory.mktemp("installed"), shim=True, see=our_packages())


def start(
    python: Path | str, *words: str, path: Iterable[Path] = (), auto: str | None = "1", **changes: str
) -> Finished:
    """Run a Python that finds ``path``; return its status and output."""
    switch = {} if auto is None else {"TORCHDEVICE_AUTO": auto}
    # Not in the checkout: -c would find the genuine package there.
    return run([str(python), *words], environment=environment([*path], **switch, **changes), folder="/")


def look(python: Path | str, path: Iterable[Path], auto: str | None = "1") -> Finished:
    """Run a program that imports torch and return its output."""
    return start(python, "-c", LOOK, path=path, auto=auto)


# ---------------------------------------------------------------------------------- packaging
def test_wheel_puts_the_pth_where_python_reads_it(installed: Path) -> None:
    code = "import torchdevice_cuda_shim as s, sysconfig; print(s.__file__, sysconfig.get_path('purelib'))"
    done = start(installed, "-c", code, auto=None)
    assert done.status == 0
    module, purelib = done.out.split()
    assert str(Path(module).parent) == purelib
    names = {entry.name for entry in Path(purelib).iterdir()}
    assert "torchdevice_cuda_shim.pth" in names
    assert "sitecustomize.py" not in names, "installed, it would hide the machine's own"
    record = next(Path(purelib).glob("torchdevice_cuda_shim-*.dist-info/RECORD")).read_text()
    assert "\ntorchdevice_cuda_shim.pth," in record, "pip uninstall must remove it"


@pytest.mark.parametrize("name", ["torchdevice_cuda_shim.py", "sitecustomize.py"])
def test_children_folder_is_the_shim(name: str) -> None:
    assert (CHILDREN / name).read_bytes() == (SHIM / name).read_bytes()


# ----------------------------------------------------------------------------------- switching
@pytest.mark.parametrize("value", ["1", "true", "TRUE", "Yes", "on", " 1 "])
def test_on(installed: Path, value: str) -> None:
    assert look(installed, [FAKES], value) == Finished(0, ACTIVATED, "")


@pytest.mark.parametrize("value", [None, "", "0", "false", "No", "OFF"])
def test_off(installed: Path, value: str | None) -> None:
    done = look(installed, [FAKES], value)
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("BuiltinImporter None\n")


@pytest.mark.parametrize("value", ["2", "maybe", "1 0"])
@pytest.mark.parametrize("path", [[], [SHIM]], ids=["installed", "both"])
def test_unreadable_value(installed: Path, value: str, path: list[Path]) -> None:
    allowed = "1, true, yes, on, try, 0, false, no, off"
    words = f"torchdevice-cuda-shim: ValueError: TORCHDEVICE_AUTO={value!r} cannot be read; allowed: {allowed}\n"
    assert look(installed, [*path, FAKES], value) == Finished(2, "", words)
    assert start(installed, "-c", "print(1)", path=path, auto=value) == Finished(0, "1\n", "")


@pytest.mark.parametrize("name", ["TORCHDEVICE_AUT0", "TORCHDEVICE_ATUO"])
@pytest.mark.parametrize("path", [[], [SHIM]], ids=["installed", "both"])
def test_misspelt_switch_ends_those_who_import_torch(installed: Path, name: str, path: list[Path]) -> None:
    words = f"torchdevice-cuda-shim: ValueError: there is no variable {name}; did you mean TORCHDEVICE_AUTO?\n"
    done = start(installed, "-c", LOOK, path=[*path, FAKES], auto=None, **{name: "1"})
    assert done == Finished(2, "", words)
    assert start(installed, "-c", "print(1)", path=path, auto=None, **{name: "1"}) == Finished(0, "1\n", "")
    off = start(installed, "-c", LOOK, path=[FAKES], auto="0", **{name: "1"})
    assert (off.status, off.err) == (0, "")


def test_empty_misspelt_switch_imports_nothing(installed: Path) -> None:
    code = "import sys; print('torchdevice_cuda_shim' in sys.modules)"
    assert start(installed, "-c", code, auto="", TORCHDEVICE_AUT0="") == Finished(0, "False\n", "")


@pytest.mark.parametrize("flags, ours", [([], True), (["-I"], True), (["-S"], False)], ids=["plain", "-I", "-S"])
def test_it_imports_itself_only(installed: Path, flags: list[str], ours: bool) -> None:
    code = "import sys; print(sorted(sys.modules))"
    off = start(installed, *flags, "-c", code, auto=None).out
    on = start(installed, *flags, "-c", code).out
    assert "torchdevice" not in off
    assert ("'torchdevice_cuda_shim', " in on) is ours
    assert on.replace("'torchdevice_cuda_shim', ", "") == off


# ----------------------------------------------------------------------------- ways to be found
@pytest.mark.parametrize("folder", [SHIM, CHILDREN], ids=["shim", "children"])
def test_by_path_alone(folder: Path) -> None:
    assert look(sys.executable, [folder, FAKES]) == Finished(0, ACTIVATED, "")


def test_every_way_at_once_acts_once(installed: Path) -> None:
    done = start(installed, "-c", LOOK + WATCHES, path=[CHILDREN, SHIM, FAKES])
    assert done == Finished(0, f"{ACTIVATED}1\n", "")


#: How often the shim is there under a flag of python's: where it is installed, and where PYTHONPATH has it.
FLAGS = {"-E": (1, 0), "-I": (1, 0), "-s": (1, 1), "-S": (0, 0), "-IS": (0, 0)}


@pytest.mark.parametrize("flag", FLAGS)
def test_flags(installed: Path, flag: str) -> None:
    """-E and -I keep PYTHONPATH out, not what is installed; -S keeps everything out."""
    count, uninstalled = FLAGS[flag]
    assert start(installed, flag, "-c", WATCHES, path=[SHIM]) == Finished(0, f"{count}\n", "")
    assert start(sys.executable, flag, "-c", WATCHES, path=[SHIM]) == Finished(0, f"{uninstalled}\n", "")


# ------------------------------------------------------------------------------ sitecustomize
@pytest.mark.parametrize("auto", ["0", "1"])
@pytest.mark.parametrize(
    "path",
    [[SHIM], [CHILDREN], [CHILDREN, SHIM], [SHIM, SHIM]],
    ids=["shim", "children", "children and shim", "shim twice"],
)
def test_hidden_sitecustomize_runs(tmp_path: Path, path: list[Path], auto: str) -> None:
    write(tmp_path / "theirs/sitecustomize.py", "import sys; print('theirs', __name__, __file__); value = 5")
    code = "import sitecustomize; print(sitecustomize.value)"
    plain = start(sys.executable, "-c", code, path=[tmp_path / "theirs"])
    assert plain.out.startswith("theirs sitecustomize ")
    assert start(sys.executable, "-c", code, path=[*path, tmp_path / "theirs"], auto=auto) == plain


def test_one_sitecustomize_only(tmp_path: Path) -> None:
    """Run only the first of two other modules, as Python does."""
    for name in ("first", "second"):
        write(tmp_path / name / "sitecustomize.py", f"print({name!r})")
    path = [SHIM, tmp_path / "first", tmp_path / "second"]
    assert start(sys.executable, "-c", "", path=path) == Finished(0, "first\n", "")


@pytest.mark.parametrize("way", ["by_import", "by_search"])
def test_sitecustomize_that_chains_back(way: str) -> None:
    """Another tool's sitecustomize runs the one it hides, or thinks it does: that is ours, which ran it."""
    done = start(sys.executable, "-c", FIRST_FINDER, path=[SHIM, CHAINING / way])
    assert done == Finished(0, "theirs\nTorchWatch\n", "")


def test_sitecustomize_before_ours_that_chains() -> None:
    done = start(sys.executable, "-c", FIRST_FINDER, path=[CHAINING / "by_import", SHIM])
    assert done == Finished(0, "theirs\nTorchWatch\n", "")


@pytest.mark.parametrize("body", ["1 / 0", "import no_such_module", "raise ImportError(name='sitecustomize')", "def ("])
def test_broken_sitecustomize(tmp_path: Path, body: str) -> None:
    write(tmp_path / "sitecustomize.py", body)
    code = "import sys; print('sitecustomize' in sys.modules)"
    plain = start(sys.executable, "-c", code, path=[tmp_path])
    assert start(sys.executable, "-c", code, path=[SHIM, tmp_path]) == plain


# ------------------------------------------------------------------------------ what goes wrong
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "ModuleNotFoundError: No module named 'torchdevice_cuda'"),
        ({"__init__.py": "1 / 0"}, "ZeroDivisionError: division by zero"),
        ({"__init__.py": "", "activation.py": "def is_active(:"}, "SyntaxError: "),
        (
            {
                "__init__.py": "",
                "activation.py": "is_active = bool\ndef start(settings, failing): raise ValueError('a\\nb')",
            },
            "a b",
        ),
    ],
    ids=["missing", "broken", "syntax", "settings"],
)
def test_broken_package(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        write(tmp_path / "torchdevice_cuda" / name, text)
    shutil.copy(FAKES / "torch.py", tmp_path)
    code = "import torch, importlib; importlib.reload(torch); print('works')"
    # Bare, as this interpreter may have the genuine package installed.
    python = make_environment(tmp_path / "bare", shim=False, see=[])
    done = start(python, "-c", code, path=[SHIM, tmp_path])
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    tried = start(python, "-c", code, path=[SHIM, tmp_path], auto="try")
    assert (tried.status, tried.out) == (0, "works\n")
    assert tried.err.startswith("torchdevice-cuda-shim: torch stays as it is: ")
    assert message in tried.err
    assert tried.err.count("\n") == 1
    assert start(python, "-c", "print('works')", path=[SHIM, tmp_path]) == Finished(0, "works\n", "")


def test_no_torch(tmp_path: Path) -> None:
    """A missing torch is reported as without the shim."""
    shutil.copytree(FAKES / "torchdevice_cuda", tmp_path / "torchdevice_cuda")
    python = make_environment(tmp_path / "bare", shim=False, see=[])
    path = [SHIM, tmp_path]
    found = start(python, "-c", "import importlib.util as u; print(u.find_spec('torch'))", path=path)
    assert found == Finished(0, "None\n", "")
    words = "ModuleNotFoundError: No module named 'torch'\n"
    assert start(python, "-c", "import torch", path=path).err.endswith(words)


def test_without_standard_error(installed: Path) -> None:
    inner = "print(1, flush=True); import torch"
    code = f"import os, subprocess, sys; os.close(2); os.execv(sys.executable, [sys.executable, '-c', {inner!r}])"
    done = start(installed, "-c", code, path=[FAKES], auto="maybe")
    assert (done.status, done.out) == (2, "1\n")


# --------------------------------------------------------------------- together with the package
def test_explicit_activation_comes_first(installed: Path) -> None:
    code = "from torchdevice_cuda import activation; activation.activate(devices=2)\n" + LOOK
    done = start(installed, "-c", code, path=[FAKES])
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("Finder ['activate', 'find torch']\n")


PENDING_AND_CANCEL = "import torchdevice_cuda_shim as s; print(s.is_pending()); s.cancel(); print(s.is_pending())\n"


def test_pending_and_cancel(installed: Path) -> None:
    done = start(installed, "-c", PENDING_AND_CANCEL + LOOK, path=[FAKES])
    assert (done.status, done.out) == (0, "True\nFalse\n['torchdevice_cuda_shim'] TorchWatch None\n")


def test_no_activation_is_pending_when_switched_off(installed: Path) -> None:
    assert start(installed, "-c", PENDING_AND_CANCEL, auto=None) == Finished(0, "False\nFalse\n", "")


def test_torch_that_came_first() -> None:
    """A path file that sorts before the shim's may have imported torch already."""
    code = "import torch, torchdevice_cuda_shim; torchdevice_cuda_shim.install()"
    code += "; from torchdevice_cuda import activation; print(activation.calls)"
    assert start(sys.executable, "-S", "-c", code, path=[SHIM, FAKES]) == Finished(0, "['activate']\n", "")


# ------------------------------------------------------------------------------------ children
def test_subprocess_inherits(installed: Path) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {LOOK!r}], check=True)"
    assert start(installed, "-c", code, path=[FAKES]) == Finished(0, ACTIVATED, "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_inherits(installed: Path, method: str) -> None:
    done = start(installed, str(PROGRAMS / "activated_process.py"), method, path=[FAKES])
    assert done == Finished(0, "Finder ['activate', 'find torch']\n", "")


def test_virtual_environments_and_pip_work(installed: Path, tmp_path: Path) -> None:
    made = start(
        installed, "-m", "venv", "--without-pip", "--system-site-packages", str(tmp_path / "made"), path=[SHIM]
    )
    assert (made.status, made.err) == (0, "")
    listed = start(tmp_path / "made/bin/python", "-m", "pip", "list", path=[SHIM])
    assert (listed.status, listed.err) == (0, "")
    assert "pip" in listed.out


# ------------------------------------------------------------------------------- the real thing
@pytest.mark.slow
def test_real_torch(installed: Path, tmp_path: Path) -> None:
    """torchrun under the installed shim: the launcher, its worker and a child of that see CUDA."""
    look = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count(), flush=True)"
    program = f"{look}; import subprocess, sys; subprocess.run([sys.executable, '-c', {look!r}], check=True)"
    script = str(write(tmp_path / "worker.py", program))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
    settings = {"TORCHDEVICE_DRIVER": "cpu", "TORCHDEVICE_DEVICES": "3"}
    done = start(installed, *launcher, script, path=[ROOT], **settings)
    assert (done.status, done.out) == (0, "True 3\nTrue 3\n"), done.err


def test_real_bad_setting() -> None:
    code = "import torch; print(torch.ones(2).sum().item())"
    done = start(sys.executable, "-c", code, path=[SHIM, ROOT], TORCHDEVICE_DRIVER="gpu")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("torchdevice-cuda-shim: TORCHDEVICE_DRIVER='gpu' cannot be read; allowed: ")
    assert done.err.count("\n") == 1
