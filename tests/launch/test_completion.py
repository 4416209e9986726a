"""Completion in shells, asked of the shells that are here; made from the table that the command line is read by."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from harness import clean_environment, run

from torchdevice_cuda.launch import cli, options

shtab = pytest.importorskip("shtab")

#: What is typed, and what a shell offers for it.
TYPED = {
    ("--dri",): {"--driver"},
    ("--driver", ""): {"auto", "cuda", "mps", "virtual", "cpu"},
    ("--gpu", "h2"): {"h200"},
    ("--no-",): {"--no-build"},
    ("--completion", "f"): {"fish"},
    ("--build", "--wheel"): {"--wheel-dir"},
    ("--rehea",): {"--rehearse", "--rehearse=strict"},
    ("--rehearse", "str"): set(),  # it would be a program
}
#: Keeps a terminal's echo and prompts away from what is read: each completion writes what it offers into a file.
ZSH = """
fpath=({folder} $fpath); autoload -Uz compinit && compinit -u -D
compadd() {{
  local -a offered; builtin compadd -A offered "$@"
  print -rl -- $offered >> {folder}/offered; builtin compadd "$@"
}}
offer() {{ : >> {folder}/offered; zle complete-word; print done >> {folder}/ended; zle send-break }}
zle -N offer && bindkey '^I' offer && print ready > {folder}/ready
"""
#: Completes words in bash as it does itself, and prints what is offered.
BASH = """
source "$1"; shift
COMP_WORDS=(torchdevice-cuda "$@"); COMP_CWORD=$#
complete_with=$(complete -p torchdevice-cuda | sed -E 's/.*-F ([^ ]+).*/\\1/')
"$complete_with" torchdevice-cuda "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("shell", options.SHELLS)
def test_every_option_is_in_it(shell: str) -> None:
    text = options.completion(shell)
    flags = [*options.FLAGS, *options.SWITCHES, *options.OF_ACTIONS, *(action.flag for action in options.ACTIONS)]
    assert [flag for flag in flags if flag not in text and f"-l {flag[2:]}" not in text] == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(options.completion("bash"))
    for words, offered in TYPED.items():
        done = run(["bash", "-c", BASH, "bash", str(script), *words], environment=clean_environment())
        assert done.status == 0 and not done.err and set(done.out.split()) >= offered, (words, done)
        assert all(word.startswith(words[-1]) for word in done.out.split()), (words, done)


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(options.completion("fish"))
    for words, offered in TYPED.items():
        asked = f"source {script}; complete -C 'torchdevice-cuda {' '.join(words)}'"
        done = run(["fish", "--no-config", "-c", asked], environment=clean_environment(HOME=str(tmp_path)))
        found = {line.split("\t")[0] for line in done.out.splitlines()}
        assert done.status == 0 and not done.err and found >= offered, (words, done)
        assert all(word.startswith(words[-1]) for word in found), (words, done)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh(tmp_path: Path) -> None:
    """Type in a terminal: zsh completes nowhere else."""
    (tmp_path / "_torchdevice-cuda").write_text(options.completion("zsh"))
    (tmp_path / "setup").write_text(ZSH.format(folder=tmp_path))
    terminal, other = pty.openpty()
    environment = clean_environment(HOME=str(tmp_path), TERM="dumb")
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=other, stdout=other, stderr=other, env=environment, start_new_session=True
    )
    try:
        os.close(other)
        os.write(terminal, f"source {tmp_path}/setup\n".encode())
        _await(tmp_path / "ready", terminal)
        for words, offered in TYPED.items():
            os.write(terminal, f"torchdevice-cuda {' '.join(words)}\t".encode())
            _await(tmp_path / "ended", terminal)
            found = set((tmp_path / "offered").read_text().split())
            assert found >= offered and all(word.startswith(words[-1]) for word in found), (words, found)
            (tmp_path / "ended").unlink()
            (tmp_path / "offered").unlink()
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def _await(path: Path, terminal: int) -> None:
    """Read the terminal, which would be full otherwise, until a file has a line."""
    os.set_blocking(terminal, False)
    printed, end = b"", time.monotonic() + 30
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < end, printed.decode(errors="replace")
        try:
            printed += os.read(terminal, 65536)
        except BlockingIOError:
            time.sleep(0.02)


def test_the_table_is_what_the_command_line_reads() -> None:
    """Every option and value that completion offers is accepted."""
    from torchdevice_cuda import settings

    for flag, option in options.FLAGS.items():
        for value in options.choices(flag):
            request = cli.parse([f"{flag}={value}"])
            assert request.action == ("gpus" if (flag, value) == ("--gpu", "list") else "interactive")
            if request.overrides:
                option.read(request.overrides[option.field])
    for flag in (*options.SWITCHES, *(action.flag for action in options.ACTIONS if not action.choices)):
        cli.parse([flag])
    assert settings.OPTIONS and set(options.choices("--driver")) == {"auto", *settings.DRIVERS}


@pytest.mark.parametrize("words", [["--completion", "tcsh"], ["--completion"]])
def test_a_shell_that_it_does_not_know(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err


def test_without_shtab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(__import__("sys").modules, "shtab", None)
    assert cli.main(["--completion", "bash"]) == 2
    assert "pip install shtab" in capsys.readouterr().err
