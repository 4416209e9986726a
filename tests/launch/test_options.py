"""Options of the command line: where they end, what cannot be read, and what is only asked for."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

import pytest
from harness import run

import torchdevice_cuda
from torchdevice_cuda import settings
from torchdevice_cuda.launch import cli

from .running import OURS, ROOT, environment, python


def test_options_end_where_the_program_begins() -> None:
    request = cli.parse(["--driver", "cpu", "--devices=2", "--name=a=b", "--devices", "3", "x.py", "--driver", "mps"])
    assert request.overrides == {"driver": "cpu", "devices": "3", "name": "a=b"}
    assert request.action == "script"
    assert request.target == "x.py"
    assert request.args == ["--driver", "mps"]


def test_options_after_an_action() -> None:
    request = cli.parse(["--info", "--driver", "cpu"])
    assert request.action == "info"
    assert request.overrides == {"driver": "cpu"}


@pytest.mark.parametrize("program", [["-c", "print('ran')"], ["--info"]], ids=["program", "info"])
@pytest.mark.parametrize(
    ("words", "variables"),
    [(["--driver", "gpu"], {}), (["--driver=gpu"], {}), ([], {"TORCHDEVICE_DRIVER": "gpu"}), (["--devices", "0"], {})],
)
def test_bad_value(words: list[str], variables: dict[str, str], program: list[str]) -> None:
    with pytest.raises(settings.SettingsError) as caught:
        settings.load(cli.parse(words).overrides, variables)
    ended = python(*OURS, *words, *program, env=environment(**variables))
    assert ended.status == 2
    assert ended.out == ""
    assert ended.err == f"torchdevice-cuda: {caught.value}\n"


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
        assert option.flag is None or f"{option.flag}{'[=VALUE]' if option.bare else ' VALUE'}" in ended.out
    assert "examples:" in ended.out
    assert all(len(line) <= 120 for line in ended.out.splitlines())


def test_version() -> None:
    ended = python(*OURS, "-V")
    version = ".".join(map(str, sys.version_info[:3]))
    torch = importlib.metadata.version("torch")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith(f"torchdevice-cuda {torchdevice_cuda.__version__} (torch {torch}, Python {version}")


def test_version_needs_no_torch() -> None:
    code = "import sys; from torchdevice_cuda.launch import cli; cli.main(['--version']); print('torch' in sys.modules)"
    assert python("-c", code).out.splitlines()[1:] == ["False"]


# --------------------------------------------------------------------------- with torch
def test_info(tmp_path: Path) -> None:
    env = environment(TORCHDEVICE_NAME="Test GPU")
    ended = python(*OURS, "--info", "--driver", "cpu", "--devices=2", "--memory", "2GiB", folder=tmp_path, env=env)
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


def test_patches(tmp_path: Path) -> None:
    """Print one line per change in torch, in columns with a heading: its target, the file that makes it, the reason."""
    ended = python(*OURS, "--patches", "--driver", "cpu", "-c", "print('ran')", folder=tmp_path)
    assert ended.status == 0
    assert ended.err == ""
    head, *lines = ended.out.splitlines()
    assert head.split() == ["target", "file", "why"]
    columns = [head.index(name) for name in ("target", "file", "why")]
    rows = [tuple(line[a:b].strip() for a, b in zip(columns, [*columns[1:], None], strict=True)) for line in lines]
    assert len(rows) > 100
    assert len(set(rows)) == len(rows)
    files = {target: file for target, file, _ in rows}
    assert files["torch.Tensor.to"] == "torchdevice_cuda/translate/patches/tensor/moves.py"
    assert [row for row in rows if not row[2] or not (ROOT / row[1]).is_file()] == []


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    """``--patches | head -1``: more is printed than a pipe holds, and nobody reads it."""
    command = f"{sys.executable} -m torchdevice_cuda --patches --driver cpu | head -c 10"
    ended = run(["sh", "-c", command], environment=environment(), folder=tmp_path)
    assert ended.out == "target    "
    assert ended.err == ""


def test_info_on_a_driver_that_cannot_work(tmp_path: Path, no_gpu: None) -> None:
    ended = python(*OURS, "--driver", "cuda", "--info", folder=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert re.fullmatch(r"torchdevice-cuda: driver 'cuda' was asked for, but [^\n]+\n", ended.err)


def test_a_program_on_a_driver_that_cannot_work(tmp_path: Path, no_gpu: None) -> None:
    ended = python(*OURS, "--driver", "cuda", "-c", "print('ran'); import torch", folder=tmp_path)
    assert (ended.status, ended.out) == (2, "ran\n")
    assert re.fullmatch(r"torchdevice-cuda: driver 'cuda' was asked for, but [^\n]+\n", ended.err)


@pytest.mark.parametrize(
    ("words", "variables", "nearest"),
    [
        (["--driver", "virtal"], {}, "virtual"),
        (["--policy=faithfull"], {}, "faithful"),
        (["--float64", "dwncast"], {}, "downcast"),
        (["--log-level", "INF"], {}, "INFO"),
        (["--mlx", "Alwys"], {}, "always"),
        (["--completion", "bsh"], {}, "bash"),
        (["--scan", ".", "--format", "jsn"], {}, "json"),
        (["--doctor", "instalation"], {}, "installation"),
        (["--cachekey"], {}, "--cache-key"),
        (["-c", ""], {"TORCHDEVICE_DRIVER": "virtal"}, "virtual"),
    ],
)
def test_the_nearest_name_is_said(words: list[str], variables: dict[str, str], nearest: str) -> None:
    done = python(*OURS, *words, env=environment(**variables))
    assert done.status == 2 and f"; did you mean {nearest}?" in done.err and done.err.count("\n") == 1, done


@pytest.mark.parametrize("words", [["--driver", "zzz"], ["--devices", "two"], ["--capability", "sm90"]])
def test_no_suggestion_without_a_similar_name(words: list[str]) -> None:
    done = python(*OURS, *words)
    assert done.status == 2 and "did you mean" not in done.err, done
