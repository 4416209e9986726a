"""Completion in shells, asked of the shells that are here; made from the table that the command line is read by."""

from __future__ import annotations

import shutil
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
}
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


@pytest.mark.parametrize(("shell", "check"), [("zsh", "-n"), ("fish", "--no-execute")])
def test_other_shells_can_read_it(shell: str, check: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    script = tmp_path / "completion"
    script.write_text(options.completion(shell))
    assert run([shell, check, str(script)]).status == 0


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
