"""The command line runs a program as plain python does: each test runs both and compares."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import pty
import py_compile
import re
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import torchdevice_cuda
from torchdevice_cuda import cli, settings

REPOSITORY = Path(torchdevice_cuda.__file__).parents[1]
OURS = ("-m", "torchdevice_cuda")


def environment(**changes: str) -> dict[str, str]:
    """This process's environment, less what would change how a child runs, with this checkout on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHDEVICE_", "PYTHON"))}
    return {**kept, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1", **changes}


@dataclasses.dataclass
class Ended:
    """How a process ended, with what differs from run to run taken out."""

    status: int
    out: str
    err: str


def python(*words: str, cwd: Path | None = None, stdin: str = "", env: dict[str, str] | None = None) -> Ended:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        input=stdin,
        env=environment() if env is None else env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    out, err = (re.sub(r"0x[0-9a-f]+", "0x", text) for text in (done.stdout, done.stderr))
    return Ended(done.returncode, out, err)


def alike(*words: str, cwd: Path, stdin: str = "", flags: Sequence[str] = (), options: Sequence[str] = ()) -> Ended:
    """Run a program plainly and through the command line; they must end alike. How they did."""
    plain = python(*flags, *words, cwd=cwd, stdin=stdin)
    ours = python(*flags, *OURS, *options, *words, cwd=cwd, stdin=stdin)
    assert ours == plain
    return plain


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path.name


SHOW = '''
    """What a program finds."""
    import sys
    main = sys.modules["__main__"]
    shown = {name: value for name, value in vars(main).items() if name not in ("main", "sys", "shown")}
    for name, value in shown.items():
        print(name, type(value) if name == "__builtins__" else value)
    print(sys.argv)
    print(sys.path)
    print(main.__dict__ is globals(), __name__)
'''


@pytest.fixture
def show(tmp_path: Path) -> Path:
    """A folder with the program in every form python takes."""
    write(tmp_path / "show.py", SHOW)
    write(tmp_path / "package/__main__.py", SHOW)
    write(tmp_path / "package/__init__.py", "")
    write(tmp_path / "package/sub.py", SHOW)
    write(tmp_path / "folder/__main__.py", SHOW)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", textwrap.dedent(SHOW))
    py_compile.compile(str(tmp_path / "show.py"), str(tmp_path / "compiled.pyc"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/link.py").symlink_to(tmp_path / "show.py")
    return tmp_path


# ------------------------------------------------------------------------ what a program finds
@pytest.mark.parametrize(
    "words",
    [
        ["show.py"],
        ["show.py", "-m", "x", "--help", "--driver", "gpu", "--", "-"],
        ["./show.py", "a b"],
        ["package/../show.py"],
        ["elsewhere/link.py"],
        ["compiled.pyc"],
        ["-m", "show", "--info"],
        ["-mshow"],
        ["-m", "package"],
        ["-m", "package.sub", "-c"],
        ["folder", "x"],
        ["archive.zip", "x"],
        ["-c", textwrap.dedent(SHOW), "--version", "-"],
        ["-", "x", "-m"],
        [],
        ["--", "show.py", "--devices"],
    ],
    ids=lambda words: " ".join(words)[:30] or "stdin",
)
def test_main_argv_and_path(show: Path, words: list[str]) -> None:
    ended = alike(*words, cwd=show, stdin=textwrap.dedent(SHOW), options=["--devices", "2"])
    assert ended.status == 0
    assert "True __main__" in ended.out


def test_absolute_script(show: Path) -> None:
    assert alike(str(show / "show.py"), cwd=show / "elsewhere").status == 0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="-P is of 3.11")
@pytest.mark.parametrize(
    "words", [["show.py"], ["-c", textwrap.dedent(SHOW)], ["folder"]], ids=["file", "-c", "folder"]
)
def test_safe_path(show: Path, words: list[str]) -> None:
    assert alike(*words, cwd=show, flags=["-P"]).status == 0


def test_installed_command(show: Path) -> None:
    """The launcher that pip writes for the ``torchdevice-cuda`` command."""
    write(show / "bin/launcher", "import sys; from torchdevice_cuda.cli import main; sys.exit(main())")
    write(show / "broken.py", "1 / 0")
    for words in (["show.py", "x"], ["-m", "show"], ["-c", textwrap.dedent(SHOW)], ["broken.py"], ["-m", "broken"]):
        assert python("bin/launcher", *words, cwd=show) == python(*words, cwd=show)


def test_modules_of_the_current_directory_are_not_ours(tmp_path: Path) -> None:
    used = ["activation", "code", "dataclasses", "inspect", "logging", "settings", "textwrap", "threading", "uuid"]
    for name in used:
        write(tmp_path / f"{name}.py", "raise ImportError('of the current directory')")
    write(tmp_path / "elsewhere/program.py", "import logging; print(logging.__file__)")
    assert alike("elsewhere/program.py", cwd=tmp_path).status == 0


def test_nested(show: Path) -> None:
    plain = python("show.py", "x", cwd=show)
    assert python(*OURS, *OURS, "show.py", "x", cwd=show) == plain


def test_no_torch_is_imported_for_the_program(tmp_path: Path) -> None:
    code = (
        "import sys, torchdevice_cuda as t; print([m for m in ('torch', 'psutil') if m in sys.modules], t.is_active())"
    )
    assert python(*OURS, "-c", code, cwd=tmp_path) == Ended(0, "[] True\n", "")


# ------------------------------------------------------------------------- how a program ends
ENDINGS = {
    "returns": "print('done')",
    "exit": "import sys; sys.exit()",
    "exit-number": "import sys; sys.exit(7)",
    "exit-text": "import sys; sys.exit('a reason')",
    "exit-object": "raise SystemExit([1])",
    "quits-at-once": "import os; print('x', flush=True); os._exit(5)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "own-handler": """
        import os, signal, sys
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        os.kill(os.getpid(), signal.SIGTERM)
    """,
    "interrupted": "raise KeyboardInterrupt",
    "error": """
        def inner():
            return 1 / 0
        inner()
    """,
    "chained": """
        try:
            {}["x"]
        except KeyError as error:
            raise RuntimeError("outer") from error
    """,
    "context": """
        try:
            {}["x"]
        finally:
            import no_such_module
    """,
    "syntax": "print('before')\ndef broken(:\n",
    "indentation": "if True:\nprint(1)\n",
    "own-hook": """
        import sys, traceback
        def hook(kind, value, tb):
            print("hook", kind, value, traceback.format_tb(tb), value.__traceback__ is tb, sys.last_traceback is tb)
        sys.excepthook = hook
        raise ValueError("seen")
    """,
    "broken-hook": """
        import sys
        def hook(*args):
            raise TypeError("the hook")
        sys.excepthook = hook
        raise ValueError("the program")
    """,
    "exiting-hook": """
        import sys
        sys.excepthook = lambda *args: sys.exit(9)
        raise ValueError
    """,
    "no-hook": "import sys; del sys.excepthook; raise ValueError('x')",
    "atexit": """
        import atexit, sys
        def later():
            import __main__
            print("later", __main__.value, sys.modules["__main__"].__dict__ is globals())
        atexit.register(later)
        value = 3
        raise ValueError
    """,
    "thread": """
        import threading, time
        def work():
            time.sleep(0.1)
            print("after the main thread", __name__)
            raise ValueError("in a thread")
        threading.Thread(target=work, name="worker").start()
    """,
    "closed-output": "import sys; sys.stdout.close(); sys.exit(4)",
    "warning": "import warnings; warnings.warn('old', DeprecationWarning)",
    "destructor": """
        class Last:
            def __del__(self):
                print("gone")
        kept = Last()
    """,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_ending_of_a_script(tmp_path: Path, ending: str) -> None:
    alike(write(tmp_path / "program.py", ENDINGS[ending]), cwd=tmp_path)


@pytest.mark.parametrize("ending", ["error", "exit-text", "interrupted", "syntax", "own-hook"])
@pytest.mark.parametrize("form", ["-m", "-c", "-", "folder"])
def test_ending_of_other_forms(tmp_path: Path, ending: str, form: str) -> None:
    text = textwrap.dedent(ENDINGS[ending])
    write(tmp_path / "program.py", text)
    write(tmp_path / "folder/__main__.py", text)
    words = {"-m": ["-m", "program"], "-c": ["-c", text], "-": ["-"], "folder": ["folder"]}[form]
    alike(*words, cwd=tmp_path, stdin=text)


def _heed_interrupts() -> None:
    """What a shell starts in the background ignores interrupts, and so does all that this starts in turn."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_interrupt_from_outside(tmp_path: Path) -> None:
    program = "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
    ends = []
    for prefix in ([], list(OURS)):
        command = [sys.executable, *prefix, write(tmp_path / "program.py", program)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": _heed_interrupts}
        with subprocess.Popen(command, cwd=tmp_path, env=environment(), text=True, **options) as child:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
            time.sleep(0.5)  # until it is asleep: the traceback shows the line
            child.send_signal(signal.SIGINT)
            ends.append((child.communicate(timeout=60), child.returncode))
    assert ends[0] == ends[1]
    assert ends[0][1] == -signal.SIGINT


@pytest.mark.parametrize(
    "words",
    [
        ["missing.py"],
        ["./a/missing.py", "x"],
        ["empty"],
        ["-m", "no_such_module"],
        ["-m", "json.no_such"],
        ["-m", "empty"],
    ],
    ids=" ".join,
)
def test_no_such_program(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "empty").mkdir()
    ended = alike(*words, cwd=tmp_path)
    assert ended.status in (1, 2)
    assert ended.err


def test_unreadable_bytes(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n")
    (tmp_path / "marked.py").write_bytes(b"\xef\xbb\xbfprint('marked')\r\nprint(2)")
    assert alike("latin.py", cwd=tmp_path).out == "'\\xe9'\n"
    assert alike("marked.py", cwd=tmp_path).out == "marked\n2\n"


# ----------------------------------------------------------------- what depends on __main__
def test_pickle_dataclass_and_source(tmp_path: Path) -> None:
    program = """
        import dataclasses, inspect, pickle, typing

        @dataclasses.dataclass
        class Point:
            x: "typing.ClassVar[int]" = 3
            y: int = 4

        if __name__ == "__main__":
            print(pickle.dumps(Point(5)), pickle.loads(pickle.dumps(Point(6))))
            print(inspect.getsource(Point), typing.get_type_hints(Point), inspect.getmodule(Point))
    """
    assert alike(write(tmp_path / "program.py", program), cwd=tmp_path).status == 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    program = """
        import multiprocessing, sys

        class Work:
            def __call__(self, number):
                return number * 2, __name__, sys.argv

        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[1])
            with context.Pool(1) as pool:
                print(pool.map(Work(), [1, 2]))
    """
    assert alike(write(tmp_path / "program.py", program), method, cwd=tmp_path).status == 0
    write(tmp_path / "package/__init__.py", "")
    write(tmp_path / "package/program.py", program)
    assert alike("-m", "package.program", method, cwd=tmp_path).status == 0


# --------------------------------------------------------------------------------- options
def test_options_end_where_the_program_begins() -> None:
    request = cli.parse(["--driver", "cpu", "--devices=2", "--name=a=b", "--devices", "3", "x.py", "--driver", "mps"])
    assert request.overrides == {"driver": "cpu", "devices": "3", "name": "a=b"}
    assert (request.action, request.target, request.args) == ("script", "x.py", ["--driver", "mps"])
    request = cli.parse(["--info", "--driver", "cpu"])
    assert (request.action, request.overrides) == ("info", {"driver": "cpu"})


@pytest.mark.parametrize(
    ("words", "variables"),
    [(["--driver", "gpu"], {}), (["--driver=gpu"], {}), ([], {"TORCHDEVICE_DRIVER": "gpu"}), (["--devices", "0"], {})],
)
def test_bad_value(words: list[str], variables: dict[str, str]) -> None:
    with pytest.raises(settings.SettingsError) as caught:
        settings.load(cli.parse(words).overrides, variables)
    for program in (["-c", "print('ran')"], ["--info"]):
        ended = python(*OURS, *words, *program, env=environment(**variables))
        assert ended == Ended(2, "", f"torchdevice-cuda: {caught.value}\n")


@pytest.mark.parametrize("words", [["--no-such"], ["--driver"], ["-m"], ["-c"], ["-x", "y.py"], ["--device=2", "y.py"]])
def test_bad_command_line(words: list[str]) -> None:
    ended = python(*OURS, *words)
    assert (ended.status, ended.out) == (2, "")
    assert re.fullmatch(r"torchdevice-cuda: [^\n]*" + re.escape(words[0].partition("=")[0]) + r"\b[^\n]*\n", ended.err)


def test_help() -> None:
    ended = python(*OURS, "--driver", "cpu", "--help")
    assert (ended.status, ended.err) == (0, "")
    for option in settings.OPTIONS:
        assert option.variable in ended.out
        assert option.flag is None or f"{option.flag} VALUE" in ended.out
    assert "examples:" in ended.out
    assert all(len(line) <= 120 for line in ended.out.splitlines())


def test_version() -> None:
    code = "import sys; from torchdevice_cuda import cli; cli.main(['--version']); assert 'torch' not in sys.modules"
    version = ".".join(map(str, sys.version_info[:3]))
    torch = importlib.metadata.version("torch")
    expected = f"torchdevice-cuda {torchdevice_cuda.__version__} (torch {torch}, Python {version}"
    for ended in (python("-c", code), python(*OURS, "-V")):
        assert (ended.status, ended.err) == (0, "")
        assert ended.out.startswith(expected)


# --------------------------------------------------------------------------------- children
CHILD = "import sys; from torchdevice_cuda import settings; print(type(sys.meta_path[0]).__name__, settings.load())"


def run_with_child(tmp_path: Path, *options: str, child: str = CHILD, **variables: str) -> Ended:
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    return python(*OURS, *options, "-c", program, cwd=tmp_path, env=environment(**variables))


def test_children_inherit(tmp_path: Path) -> None:
    ended = run_with_child(tmp_path, "--devices", "3", "--memory", "1GiB", "--capability=8.6", TORCHDEVICE_NAME="N")
    expected = settings.Settings(devices=3, memory=2**30, capability=(8, 6), name="N")
    assert ended == Ended(0, f"TorchWatch {expected}\n", "")


def test_command_line_default_wins_in_children_too(tmp_path: Path) -> None:
    ended = run_with_child(tmp_path, "--devices", "1", TORCHDEVICE_DEVICES="4")
    assert ended == Ended(0, f"TorchWatch {settings.Settings()}\n", "")


def test_grandchildren_get_one_path_entry(tmp_path: Path) -> None:
    inner = "import os; print(os.environ['PYTHONPATH'].split(os.pathsep))"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-m', 'torchdevice_cuda', '-c', {inner!r}])"
    folder = REPOSITORY / "torchdevice_cuda" / "children"
    assert run_with_child(tmp_path, child=nested).out == f"{[str(folder), str(REPOSITORY)]}\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing_children_inherit(tmp_path: Path, method: str) -> None:
    program = """
        import multiprocessing, sys

        def look(queue):
            queue.put("torchdevice_cuda_shim" in sys.modules)

        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[1])
            queue = context.Queue()
            process = context.Process(target=look, args=(queue,))
            process.start()
            print(queue.get(timeout=60))
            process.join()
    """
    write(tmp_path / "program.py", program)
    assert python(*OURS, "program.py", method, cwd=tmp_path).out == "True\n"


def test_hidden_sitecustomize_still_runs(tmp_path: Path) -> None:
    write(tmp_path / "site/sitecustomize.py", "mark = 'theirs'")
    child = "import sitecustomize, sys; print(sitecustomize.mark, type(sys.meta_path[0]).__name__)"
    path = os.pathsep.join([str(REPOSITORY), str(tmp_path / "site")])
    assert run_with_child(tmp_path, child=child, PYTHONPATH=path) == Ended(0, "theirs TorchWatch\n", "")


def test_installed_shim_is_not_doubled(tmp_path: Path) -> None:
    program = "import os; print(os.environ['PYTHONPATH'], os.environ['TORCHDEVICE_AUTO'])"
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "shim")])
    ended = python(*OURS, "-c", program, cwd=tmp_path, env=environment(PYTHONPATH=path))
    assert ended == Ended(0, f"{path} 1\n", "")


def test_children_of_a_checkout_in_the_current_directory(tmp_path: Path) -> None:
    """The package is found only as the current directory's: children need to be told where it is."""
    (tmp_path / "torchdevice_cuda").symlink_to(REPOSITORY / "torchdevice_cuda")
    child = "import torchdevice_cuda; print(torchdevice_cuda.__file__)"
    program = (
        f"import os, subprocess, sys; os.chdir('/'); subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    ended = python(*OURS, "-c", program, cwd=tmp_path, env=env)
    assert (ended.status, ended.err) == (0, "")
    assert Path(ended.out.strip()).parent.resolve() == REPOSITORY / "torchdevice_cuda"


# --------------------------------------------------------------------------- interactive
def session(lines: Sequence[str], cwd: Path, *words: str, **variables: str) -> tuple[int, str]:
    """Type into a session on a terminal, line by line; its exit status and everything the terminal showed."""
    ours, theirs = pty.openpty()
    env = environment(TERM="dumb", HOME=str(cwd), **variables)
    with subprocess.Popen(
        [sys.executable, *words], cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as child:
        os.close(theirs)
        shown = b""
        for line in lines:
            shown += read_until(ours, b">>> ")
            os.write(ours, line.encode())
        shown += read_until(ours, None)
        status = child.wait(timeout=60)
    os.close(ours)
    return status, shown.decode().replace("\r\n", "\n")


def read_until(terminal: int, mark: bytes | None) -> bytes:
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            block = os.read(terminal, 4096)
        except OSError:  # how Linux says that the other end is closed
            return shown
        shown += block
        if not block or (mark is not None and mark in shown):
            return shown
    raise TimeoutError(shown)


def test_session(tmp_path: Path) -> None:
    write(tmp_path / "startup.py", "started = 'by the startup file'")
    lines = [
        "import sys; sys.argv, sys.path[0], sys.ps1, __name__, '__file__' in globals()\n",
        "started\n",
        "'completes', 'rlcompleter' in sys.modules\n",
        "1 / 0\n",
        "sys.exit(6)\n",
    ]
    status, shown = session(lines, tmp_path, *OURS, PYTHONSTARTUP=str(tmp_path / "startup.py"))
    assert status == 6
    assert f"Python {sys.version}" in shown.replace("\n\n", "\n")
    assert f"torchdevice-cuda {torchdevice_cuda.__version__}" in shown
    assert "([''], '', '>>> ', '__main__', False)" in shown
    assert "'by the startup file'" in shown
    assert "('completes', True)" in shown
    assert 'Traceback (most recent call last):\n  File "<stdin>", line 1, in <module>\n' in shown
    assert "torchdevice_cuda/" not in shown


def test_session_ends_with_the_input(tmp_path: Path) -> None:
    status, shown = session(["x = 5\n", "x * 2\n", "\x04"], tmp_path, "-q", *OURS, "-", "a")
    assert status == 0
    assert "\n10\n" in shown
    assert "Python" not in shown


# --------------------------------------------------------------------------- with torch
def test_info(tmp_path: Path) -> None:
    env = environment(TORCHDEVICE_NAME="Test GPU")
    ended = python(*OURS, "--info", "--driver", "cpu", "--devices=2", "--memory", "2GiB", cwd=tmp_path, env=env)
    assert (ended.status, ended.err) == (0, "")
    lines = [line.strip() for line in ended.out.splitlines()]
    values = {re.sub(r"\s{2,}", "|", line) for line in lines}
    torch = importlib.metadata.version("torch")
    assert {"driver", "name|cpu", "device 0", "device 1", "name|Test GPU", "compute capability|7.0"} <= values
    assert {
        "driver|cpu|(from --driver)",
        "devices|2|(from --devices)",
        "name|Test GPU|(from TORCHDEVICE_NAME)",
    } <= values
    assert "memory|2.00 GiB" in values
    assert any(line.startswith("because") for line in lines)
    assert any(line.startswith("memory figures") for line in lines)
    assert any(re.match(rf"torch +{re.escape(torch)}", line) for line in lines)
    assert sum(bool(re.fullmatch(r"uuid +GPU-[0-9a-f-]{36}", line)) for line in lines) == 2
    assert "default" not in ended.out


def has_cuda() -> bool:
    import torch

    return bool(torch._C._has_cuda) and torch._C._cuda_getDeviceCount() > 0


def test_driver_that_cannot_work(tmp_path: Path) -> None:
    if has_cuda():
        pytest.skip("this machine has a CUDA GPU")
    ended = python(*OURS, "--driver", "cuda", "--info", cwd=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert re.fullmatch(r"torchdevice-cuda: driver 'cuda' was asked for, but [^\n]+\n", ended.err)
    ended = python(*OURS, "--driver", "cuda", "-c", "print('ran'); import torch", cwd=tmp_path)
    assert (ended.status, ended.out) == (1, "ran\n")
    assert "driver 'cuda' was asked for" in ended.err.splitlines()[-1]


def test_program_and_its_child_see_cuda(tmp_path: Path) -> None:
    look = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count(), flush=True)"
    program = f"{look}; import subprocess, sys; subprocess.run([sys.executable, '-c', {look!r}], check=True)"
    ended = python(*OURS, "--driver", "cpu", "--devices", "2", "-c", program, cwd=tmp_path)
    assert ended == Ended(0, "True 2\nTrue 2\n", "")
