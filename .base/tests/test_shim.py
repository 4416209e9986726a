"""The shim: real python processes in a virtual environment that has it installed, and others that find it by path."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

import torchdevice_cuda

REPOSITORY = Path(torchdevice_cuda.__file__).parents[1]
SHIM = REPOSITORY / "shim"
CHILDREN = REPOSITORY / "torchdevice_cuda" / "children"
_bench = runpy.run_path(str(REPOSITORY / "tools" / "bench" / "startup.py"))
make_environment, our_packages = _bench["make_environment"], _bench["our_packages"]

# A torch and a torchdevice_cuda small enough to start hundreds of times: what the shim may know of them, and no more.
FAKE_TORCH = """
    import sys
    finders = [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path]
"""
FAKE_ACTIVATION = """
    import sys
    calls = []

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "torch":
                calls.append("find torch")
                for other in sys.meta_path:  # as the genuine finder does
                    if other is not self and other.find_spec(name, path, target) is not None:
                        return other.find_spec(name, path, target)
            return None

    def is_active():
        return "activate" in calls

    def activate(**settings):
        if is_active():
            return
        calls.append("activate")
        sys.meta_path.insert(0, Finder())
"""
LOOK = """
    import sys
    before = sorted(name for name in sys.modules if name.startswith("torch"))
    import torch
    activation = sys.modules.get("torchdevice_cuda.activation")
    print(before, torch.finders[0], activation and activation.calls)
"""
ACTIVATED = "['torchdevice_cuda_shim'] Finder ['activate', 'find torch']\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the fake torch and the fake torchdevice_cuda."""
    folder = tmp_path_factory.mktemp("fakes")
    write(folder / "torch.py", FAKE_TORCH)
    write(folder / "torchdevice_cuda" / "__init__.py", "")
    write(folder / "torchdevice_cuda" / "activation.py", FAKE_ACTIVATION)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of an environment in which pip has installed the shim; it sees our packages, setuptools for one."""
    return make_environment(tmp_path_factory.mktemp("installed"), shim=True, see=our_packages())


def environment(path: Sequence[Path] = (), auto: str | None = "1", **changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHDEVICE_", "PYTHON"))}
    if auto is not None:
        kept["TORCHDEVICE_AUTO"] = auto
    if path:
        kept["PYTHONPATH"] = os.pathsep.join(map(str, path))
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **changes}


def run(python: Path | str, *words: str, env: dict[str, str]) -> tuple[int, str, str]:
    # Not in the checkout: -c would find the genuine package there.
    done = subprocess.run([python, *words], env=env, cwd="/", capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def look(python: Path | str, *flags: str, env: dict[str, str]) -> tuple[int, str, str]:
    return run(python, *flags, "-c", textwrap.dedent(LOOK), env=env)


# ---------------------------------------------------------------------------------- packaging
def test_wheel_puts_the_pth_where_python_reads_it(installed: Path) -> None:
    code = "import torchdevice_cuda_shim as s, sysconfig; print(s.__file__, sysconfig.get_path('purelib'))"
    status, out, _ = run(installed, "-c", code, env=environment(auto=None))
    module, purelib = out.split()
    assert (status, str(Path(module).parent)) == (0, purelib)
    names = {entry.name for entry in Path(purelib).iterdir()}
    assert "torchdevice_cuda_shim.pth" in names
    assert "sitecustomize.py" not in names, "installed, it would hide the machine's own"
    record = next(Path(purelib).glob("torchdevice_cuda_shim-*.dist-info/RECORD")).read_text()
    assert "\ntorchdevice_cuda_shim.pth," in record, "pip uninstall must remove it"


def test_children_folder_is_the_shim() -> None:
    for name in ("torchdevice_cuda_shim.py", "sitecustomize.py"):
        assert (CHILDREN / name).read_bytes() == (SHIM / name).read_bytes()


# ----------------------------------------------------------------------------------- switching
@pytest.mark.parametrize("value", ["1", "true", "TRUE", "Yes", "on", " 1 "])
def test_on(installed: Path, fakes: Path, value: str) -> None:
    assert look(installed, env=environment([fakes], value)) == (0, ACTIVATED, "")


@pytest.mark.parametrize("value", [None, "", "0", "false", "No", "OFF"])
def test_off(installed: Path, fakes: Path, value: str | None) -> None:
    status, out, err = look(installed, env=environment([fakes], value))
    assert (status, err) == (0, "")
    assert out.endswith("BuiltinImporter None\n")


@pytest.mark.parametrize("value", ["2", "maybe", "1 0"])
@pytest.mark.parametrize("path", [[], [SHIM]], ids=["installed", "both"])
def test_unreadable_value(installed: Path, fakes: Path, value: str, path: list[Path]) -> None:
    status, out, err = look(installed, env=environment([*path, fakes], value))
    assert status == 0
    assert out.endswith("BuiltinImporter None\n")
    allowed = "1, true, yes, on, 0, false, no, off"
    assert err == f"torchdevice-cuda-shim: TORCHDEVICE_AUTO={value!r} cannot be read; allowed: {allowed}\n"


def test_off_imports_nothing(installed: Path) -> None:
    code = "import sys; print(sorted(sys.modules))"
    for flags in ([], ["-I"], ["-S"]):
        off = run(installed, *flags, "-c", code, env=environment(auto=None))
        assert "torchdevice" not in off[1]
        on = run(installed, *flags, "-c", code, env=environment())
        ours = "" if "-S" in flags else "'torchdevice_cuda_shim', "
        assert on[1].replace(ours, "") == off[1], "switched on, it imports itself only"


# ----------------------------------------------------------------------------- ways to be found
@pytest.mark.parametrize("folder", [SHIM, CHILDREN], ids=["shim", "children"])
def test_by_path_alone(fakes: Path, folder: Path) -> None:
    assert look(sys.executable, env=environment([folder, fakes])) == (0, ACTIVATED, "")


def test_every_way_at_once_acts_once(installed: Path, fakes: Path) -> None:
    code = textwrap.dedent(LOOK) + "print([type(finder).__name__ for finder in sys.meta_path].count('TorchWatch'))"
    status, out, err = run(installed, "-c", code, env=environment([CHILDREN, SHIM, fakes]))
    assert (status, out, err) == (0, f"{ACTIVATED}1\n", "")


def test_flags(installed: Path, fakes: Path) -> None:
    """-E and -I keep PYTHONPATH out, not what is installed; -S keeps everything out."""
    code = "import sys; print([type(finder).__name__ for finder in sys.meta_path].count('TorchWatch'))"
    for flag, count in (("-E", 1), ("-I", 1), ("-s", 1), ("-S", 0), ("-IS", 0)):
        assert run(installed, flag, "-c", code, env=environment([SHIM])) == (0, f"{count}\n", "")
        uninstalled = 1 if flag == "-s" else 0
        assert run(sys.executable, flag, "-c", code, env=environment([SHIM])) == (0, f"{uninstalled}\n", "")


# ------------------------------------------------------------------------------ sitecustomize
def test_hidden_sitecustomize_runs(fakes: Path, tmp_path: Path) -> None:
    write(tmp_path / "theirs/sitecustomize.py", "import sys; print('theirs', __name__, __file__); value = 5")
    code = "import sitecustomize; print(sitecustomize.value)"
    plain = run(sys.executable, "-c", code, env=environment([tmp_path / "theirs"]))
    assert plain[1].startswith("theirs sitecustomize ")
    for path in ([SHIM], [CHILDREN], [CHILDREN, SHIM], [SHIM, SHIM]):
        for auto in ("0", "1"):
            assert run(sys.executable, "-c", code, env=environment([*path, tmp_path / "theirs"], auto)) == plain


def test_one_sitecustomize_only(tmp_path: Path) -> None:
    """Of two others, python would have run the first."""
    for name in ("first", "second"):
        write(tmp_path / name / "sitecustomize.py", f"print({name!r})")
    path = [tmp_path / "first", tmp_path / "second"]
    assert run(sys.executable, "-c", "", env=environment([SHIM, *path])) == (0, "first\n", "")


CHAINING = {
    "by-import": """
        import os, sys
        print("theirs")
        here = os.path.dirname(__file__)
        sys.path.remove(here)
        del sys.modules["sitecustomize"]
        import sitecustomize
        sys.path.append(here)
    """,
    "by-search": """
        import importlib.machinery, importlib.util, os, sys
        print("theirs")
        path = [entry for entry in sys.path if entry != os.path.dirname(__file__)]
        spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
        if spec is not None:
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
    """,
}


@pytest.mark.parametrize("way", CHAINING)
def test_sitecustomize_that_chains_back(tmp_path: Path, way: str) -> None:
    """Another tool's sitecustomize runs the one it hides, or thinks it does: that is ours, which ran it."""
    write(tmp_path / "theirs/sitecustomize.py", CHAINING[way])
    code = "import sys; print(type(sys.meta_path[0]).__name__)"
    assert run(sys.executable, "-c", code, env=environment([SHIM, tmp_path / "theirs"])) == (
        0,
        "theirs\nTorchWatch\n",
        "",
    )


def test_sitecustomize_before_ours_that_chains(tmp_path: Path) -> None:
    write(tmp_path / "theirs/sitecustomize.py", CHAINING["by-import"])
    code = "import sys; print(type(sys.meta_path[0]).__name__)"
    assert run(sys.executable, "-c", code, env=environment([tmp_path / "theirs", SHIM])) == (
        0,
        "theirs\nTorchWatch\n",
        "",
    )


@pytest.mark.parametrize("body", ["1 / 0", "import no_such_module", "raise ImportError(name='sitecustomize')", "def ("])
def test_broken_sitecustomize(tmp_path: Path, body: str) -> None:
    write(tmp_path / "sitecustomize.py", body)
    code = "import sys; print('sitecustomize' in sys.modules)"
    plain = run(sys.executable, "-c", code, env=environment([tmp_path]))
    assert run(sys.executable, "-c", code, env=environment([SHIM, tmp_path])) == plain


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
                "activation.py": "is_active = bool\ndef activate(**settings): raise ValueError('a\\nb')",
            },
            "a b",
        ),
    ],
    ids=["missing", "broken", "syntax", "settings"],
)
def test_broken_package(fakes: Path, tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        write(tmp_path / "torchdevice_cuda" / name, text)
    shutil.copy(fakes / "torch.py", tmp_path)
    code = "import torch, importlib; importlib.reload(torch); print('works')"
    # Bare, as this interpreter may have the genuine package installed.
    python = make_environment(tmp_path / "bare", shim=False, see=[])
    status, out, err = run(python, "-c", code, env=environment([SHIM, tmp_path]))
    assert (status, out) == (0, "works\n")
    assert err.startswith("torchdevice-cuda-shim: torch stays as it is: ")
    assert message in err
    assert err.count("\n") == 1
    assert run(python, "-c", "print('works')", env=environment([SHIM, tmp_path])) == (0, "works\n", "")


def test_no_torch(tmp_path: Path) -> None:
    """Where there is no torch, its absence is reported as ever."""
    write(tmp_path / "torchdevice_cuda/__init__.py", "")
    write(tmp_path / "torchdevice_cuda/activation.py", FAKE_ACTIVATION)
    python = make_environment(tmp_path / "bare", shim=False, see=[])
    env = environment([SHIM, tmp_path])
    assert run(python, "-c", "import torch", env=env)[2].endswith("ModuleNotFoundError: No module named 'torch'\n")
    assert run(python, "-c", "import importlib.util as u; print(u.find_spec('torch'))", env=env) == (0, "None\n", "")


def test_without_standard_error(installed: Path) -> None:
    code = "import os, subprocess, sys; os.close(2); os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])"
    assert run(installed, "-c", code, env=environment(auto="maybe"))[:2] == (0, "1\n")


# --------------------------------------------------------------------- together with the package
def test_explicit_activation_comes_first(installed: Path, fakes: Path) -> None:
    code = "from torchdevice_cuda import activation; activation.activate(devices=2)\n" + textwrap.dedent(LOOK)
    status, out, err = run(installed, "-c", code, env=environment([fakes]))
    assert (status, err) == (0, "")
    assert out.endswith("Finder ['activate', 'find torch']\n")


def test_pending_and_cancel(installed: Path, fakes: Path) -> None:
    code = "import torchdevice_cuda_shim as s; print(s.is_pending()); s.cancel(); print(s.is_pending())\n"
    status, out, _ = run(installed, "-c", code + textwrap.dedent(LOOK), env=environment([fakes]))
    assert (status, out) == (0, "True\nFalse\n['torchdevice_cuda_shim'] TorchWatch None\n")
    assert run(installed, "-c", code, env=environment(auto=None)) == (0, "False\nFalse\n", "")


def test_torch_that_came_first(fakes: Path) -> None:
    """A path file that sorts before the shim's may have imported torch already."""
    code = "import torch, torchdevice_cuda_shim; torchdevice_cuda_shim.install()"
    code += "; from torchdevice_cuda import activation; print(activation.calls)"
    assert run(sys.executable, "-S", "-c", code, env=environment([SHIM, fakes])) == (0, "['activate']\n", "")


# ------------------------------------------------------------------------------------ children
def test_subprocess_inherits(installed: Path, fakes: Path) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {textwrap.dedent(LOOK)!r}], check=True)"
    assert run(installed, "-c", code, env=environment([fakes])) == (0, ACTIVATED, "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_inherits(installed: Path, fakes: Path, tmp_path: Path, method: str) -> None:
    program = """
        import multiprocessing, sys

        def look(queue):
            import torch, torchdevice_cuda.activation
            queue.put((torch.finders[0], torchdevice_cuda.activation.calls))

        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[1])
            queue = context.Queue()
            process = context.Process(target=look, args=(queue,))
            process.start()
            print(*queue.get(timeout=60))
            process.join()
    """
    script = write(tmp_path / "program.py", program)
    status, out, err = run(installed, str(script), method, env=environment([fakes]))
    assert (status, out, err) == (0, "Finder ['activate', 'find torch']\n", "")


def test_virtual_environments_and_pip_work(installed: Path, tmp_path: Path) -> None:
    status, _, err = run(installed, "-m", "venv", str(tmp_path / "made"), env=environment([SHIM]))
    assert (status, err) == (0, "")
    status, out, err = run(tmp_path / "made/bin/python", "-m", "pip", "list", env=environment([SHIM]))
    assert (status, err) == (0, "")
    assert "pip" in out


# ------------------------------------------------------------------------------- the real thing
def test_real_torch(tmp_path: Path) -> None:
    """torchrun under the installed shim: the launcher, its worker and a child of that see CUDA."""
    python = make_environment(tmp_path / "real", shim=True, see=[*our_packages(), REPOSITORY])
    look = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count(), flush=True)"
    program = f"{look}; import subprocess, sys; subprocess.run([sys.executable, '-c', {look!r}], check=True)"
    script = write(tmp_path / "worker.py", program)
    env = environment(TORCHDEVICE_DRIVER="cpu", TORCHDEVICE_DEVICES="3", OMP_NUM_THREADS="1")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
    status, out, err = run(python, *launcher, str(script), env=env)
    assert (status, out) == (0, "True 3\nTrue 3\n"), err


def test_real_bad_setting() -> None:
    env = environment([SHIM, REPOSITORY], TORCHDEVICE_DRIVER="gpu")
    status, out, err = run(sys.executable, "-c", "import torch; print(torch.ones(2).sum().item())", env=env)
    assert (status, out) == (0, "2.0\n")
    assert err.startswith("torchdevice-cuda-shim: torch stays as it is: ")
    assert "TORCHDEVICE_DRIVER='gpu' cannot be read; allowed: " in err
    assert err.count("\n") == 1
