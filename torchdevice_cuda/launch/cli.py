"""The command line: ``python -m torchdevice_cuda [options] program args…``.

Options end where the program begins; from there on every word belongs to the program.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence

from .. import __version__, gpus, settings
from . import failing, program

NAME = failing.NAME
_SMI = "nvidia-smi"
#: Options that take no value, and the setting that each makes.
_SWITCHES = {"--no-build": {"build": "0"}, "--with-nvidia-smi": {"nvidia_smi": "1"}}
FLAGS = {option.flag: option for option in settings.OPTIONS if option.flag is not None}

_USAGE = f"""\
Run a PyTorch program written for CUDA on this machine, whatever it has instead.

usage: python -m torchdevice_cuda [options] script.py [args]
       python -m torchdevice_cuda [options] -m module [args]
       python -m torchdevice_cuda [options] -c code [args]
       python -m torchdevice_cuda [options] - [args]          the program comes from standard input
       python -m torchdevice_cuda [options]                   an interactive session
       python -m torchdevice_cuda [options] nvidia-smi [args] the GPUs, and the processes that use them
       {NAME} ...                                   the same, once installed
"""
_EXAMPLES = """\
examples:
  python -m torchdevice_cuda train.py --epochs 3
  python -m torchdevice_cuda -m torch.distributed.run --nproc-per-node 2 ddp.py
  python -m torchdevice_cuda -c "import torch; print(torch.cuda.get_device_name())"
  python -m torchdevice_cuda --devices 4 --memory 16GiB train.py
  python -m torchdevice_cuda --gpu h200 train.py
  python -m torchdevice_cuda --info --driver cpu
  python -m torchdevice_cuda --patches --driver cpu
  python -m torchdevice_cuda --doctor
  python -m torchdevice_cuda --build
  python -m torchdevice_cuda nvidia-smi
"""


class UsageError(Exception):
    """The command line cannot be understood."""


@dataclasses.dataclass
class Request:
    """What the command line asks for."""

    overrides: dict[str, str] = dataclasses.field(default_factory=dict)
    #: or: script, module, command, stdin, nvidia-smi, info, patches, doctor, build, gpus, version, help
    action: str = "interactive"
    target: str = ""  # the script, module or code
    args: list[str] = dataclasses.field(default_factory=list)


def parse(words: Sequence[str]) -> Request:
    """Read the words after ``python -m torchdevice_cuda``."""
    request = Request()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if request.action == "doctor" and (word in ("-", "--") or word[:2] in ("-m", "-c") or word[:1] != "-"):
            request.args.append(word)  # names of checks, and whatever it does not know
            continue
        if word == "-":
            return _program(request, "stdin", word, rest)
        if word == _SMI:
            return _program(request, _SMI, word, rest)
        if not word.startswith("-"):
            return _program(request, "script", word, rest)
        if word == "--":
            return _program(request, "script", rest.pop(0), rest) if rest else request
        if word[:2] in ("-m", "-c"):  # python takes the argument attached, too: -mmodule
            kind, what = ("module", "a module's name") if word[:2] == "-m" else ("command", "the code")
            if not word[2:] and not rest:
                raise UsageError(f"{word} needs {what} after it")
            return _program(request, kind, word[2:] or rest.pop(0), rest)
        if word in ("-h", "--help"):
            request.action = "help"
            return request
        if word in ("-V", "--version"):
            request.action = "version"
        elif word in ("--info", "--patches", "--doctor", "--build"):
            request.action = word[2:]
        elif word in _SWITCHES:
            request.overrides.update(_SWITCHES[word])
        else:
            _setting(request, word, rest)
    return request


def _program(request: Request, action: str, target: str, args: list[str]) -> Request:
    if request.action == "interactive":  # --info and its kin do not run programs
        request.action = action
    request.target, request.args = target, args
    return request


def _setting(request: Request, word: str, rest: list[str]) -> None:
    flag, attached, value = word.partition("=")
    option = FLAGS.get(flag)
    if option is None:
        raise UsageError(f"there is no option {flag}; see python -m torchdevice_cuda --help")
    if not attached:
        if not rest:
            raise UsageError(f"{flag} needs a value; allowed: {option.allowed}")
        value = rest.pop(0)
    if option.field == "gpu" and value == "list":
        request.action = "gpus"
    else:
        request.overrides[option.field] = value


def help_text() -> str:
    """The text of ``--help``."""
    import textwrap

    rows = [(f"{flag} VALUE", f"{option.help}: {option.allowed}") for flag, option in FLAGS.items()]
    rows += [
        ("--no-build", "do not build the native part of the virtual GPU where it is missing"),
        ("--with-nvidia-smi", "put an nvidia-smi on the PATH of the program, which shows these GPUs"),
        ("--build", "build the native part that the driver needs now, and show where it is"),
        ("--info", "show what stands in for the GPU here, and why"),
        ("--patches", "show what is changed in torch for that, where, and why"),
        ("--doctor [CHECK...] [FILE.json]", "check that it works here; a table, and a file for an issue"),
        ("--version", "show versions"),
        ("--help", "show this text"),
    ]
    width = max(len(left) for left, _ in rows)
    options = "\n".join(f"  {left:<{width}}  {right}" for left, right in rows)
    variables = textwrap.fill(
        ", ".join(option.variable for option in settings.OPTIONS),
        width=100,
        initial_indent="  ",
        subsequent_indent="  ",
    )
    return (
        f"{_USAGE}\noptions:\n{options}\n\n"
        f"Each option can be given as a variable instead; options win:\n{variables}\n\n{_EXAMPLES}"
    )


def version_text() -> str:
    """The text of ``--version``; torch's version comes from its metadata, as importing it takes seconds."""
    import platform
    from importlib import metadata

    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = "not installed"
    return f"{NAME} {__version__} (torch {torch}, Python {platform.python_version()})"


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit status, where the program itself does not end the process."""
    try:
        request = parse(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        return _fail(str(error))
    if request.action == "help":
        return _show(help_text())
    if request.action == "gpus":
        return _show(f"{gpus.table()}\n")
    if request.action == "version":
        return _show(f"{version_text()}\n")

    program.drop_first_entry()
    from .. import activation
    from . import children

    try:
        chosen = settings.load(request.overrides)
        if request.action in ("info", "patches"):
            from . import info

            text = (info.text if request.action == "info" else info.patches)(request.overrides)
            return _show(f"{text}\n")
        if request.action == _SMI:
            from ..nvidia.smi import command

            return command.main(request.args, chosen)
        if request.action == "doctor":
            return _examine(request, chosen)
        if request.action == "build":
            return _build(chosen)
        activation.start(request.overrides, failing.end_program)
    except (settings.SettingsError, activation.ActivationError, activation.DriverUnavailable) as error:
        return _fail(str(error))
    children.export(chosen, request.overrides)
    return _run(request)


def _show(text: str) -> int:
    """Print what was asked for; a reader such as ``head`` may have seen enough before its end."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        # The interpreter flushes once more when it ends, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _examine(request: Request, chosen: settings.Settings) -> int:
    from .doctor import examination

    try:
        text, status = examination.examine(request.args, chosen, request.overrides)
    except examination.RequestError as error:
        return _fail(str(error))
    _show(text)
    return status


def _build(chosen: settings.Settings) -> int:
    """Builds what the driver needs: the virtual GPU, the double of an Apple GPU, or what a real one can use."""
    from ..native import build

    if chosen.emulate_mps and chosen.driver in ("mps", "auto"):
        kind = "mps"
    else:
        kind = "calls" if chosen.driver == "mps" else "cuda"
    try:
        return _show(f"{build.library(kind)}\n")
    except build.BuildError as error:
        return _fail(str(error))


def _run(request: Request) -> int:
    target, args = request.target, request.args
    if request.action == "script":
        try:
            program.run_script(target, args)
        except program.ProgramNotFound as error:
            print(error, file=sys.stderr)
            return 2
    elif request.action == "module":
        program.run_module(target, args)
    elif request.action == "command":
        program.run_command(target, args)
    elif _is_interactive():
        from . import repl

        repl.interact(program.prepare_interactive(target, args))
    else:
        program.run_stdin(target, args)
    return 0


def _is_interactive() -> bool:
    """Python reads a session from a terminal, and a program from anything else."""
    return sys.stdin is not None and sys.stdin.isatty()


def _fail(message: str) -> int:
    failing.say(message)
    return failing.STATUS
