"""Every option of the command line, in groups: the table for ``cli``, the help and shell completion."""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from .. import settings
from ..settings import gpus, variables
from . import failing, planning

NAME = failing.NAME
SHELLS = ("bash", "zsh", "fish")
FORMATS = ("text", "lines", "json", "sarif", "html")
#: Short forms of --format.
FORMAT_FLAGS = {f"--{form}": form for form in ("json", "sarif", "html")}


@dataclasses.dataclass(frozen=True)
class Action:
    """An option that replaces running a program."""

    flag: str
    help: str
    #: The text of its arguments in ``--help``.
    arguments: str = ""
    choices: tuple[str, ...] = ()


#: The order of ``--help``: what a user needs first comes first.
ACTIONS = (
    Action("--info", "show the chosen driver, and why"),
    Action(
        "--doctor",
        "check this machine, with advice; FILE.json gets all results, for an issue",
        "[CHECK...] [FILE.json]",
    ),
    Action("--build", "compile the driver's native parts now, all or some, and print their paths", "[PART...]"),
    Action(
        "--cache-key", "print the key of the native parts in a cache; it changes with torch, Python and this package"
    ),
    Action("--scan", "find uses of CUDA in a project that will not work, without running it", "PATH..."),
    Action("--patches", "list the patches of torch for the driver, with file and reason"),
    Action("--completion", "print a shell's completion script for these options", "SHELL", SHELLS),
    Action("--version", "show versions"),
    Action("--help", "show this text"),
)
#: Options of an action, and the action.
OF_ACTIONS = {
    "--wheel-dir": (
        "build",
        "with --build: write a wheel of all native parts there, for machines without a compiler",
        "DIR",
    ),
    "--format": ("scan", f"with --scan: {', '.join(FORMATS)}; short: {' '.join(FORMAT_FLAGS)}", "VALUE"),
}
#: Options that take no value, the setting of each, and its description.
SWITCHES: Mapping[str, tuple[dict[str, str], str]] = {
    option.switch[0]: ({option.field: option.write(not getattr(settings.Settings(), option.field))}, option.switch[1])
    for option in settings.OPTIONS
    if option.switch is not None
}
FLAGS = {option.flag: option for option in settings.OPTIONS if option.flag is not None}
#: Old names of options, and the options.
OLD_FLAGS = {flag: option for option in settings.OPTIONS for flag in option.flags[1:]}
_MORE_CHOICES = {"--hide-from": ("default", "none"), "--format": FORMATS}
_PATHS = ("--report", "--wheel-dir")

_USAGE = f"""\
Run a PyTorch program written for CUDA on this machine, with or without a CUDA GPU.

usage: python -m torchdevice_cuda [options] script.py [args]
       python -m torchdevice_cuda [options] -m module [args]
       python -m torchdevice_cuda [options] -c code [args]
       python -m torchdevice_cuda [options] torchrun [args]   a command that is installed beside this Python
       python -m torchdevice_cuda [options] - [args]          the program comes from standard input
       python -m torchdevice_cuda [options]                   an interactive session
       python -m torchdevice_cuda [options] nvidia-smi [args] the GPUs, and the processes that use them
       python -m torchdevice_cuda plan [--gpus NAMES] [--prices FILE] [--html FILE] script.py [args]
                                                              GPUs for a program: memory, time of a step, cost
       python -m torchdevice_cuda [options] env               versions and GPUs, as issues of PyTorch ask for them
       {NAME} ...                                   the same, once installed
Options end where the program begins; all later words are the program's arguments.
"""
_EXAMPLES = """\
examples:
  a first look                  python -m torchdevice_cuda --info
  a script, with its arguments  python -m torchdevice_cuda train.py --epochs 3
  two GPUs, DDP                 python -m torchdevice_cuda --devices 2 -m torch.distributed.run --nproc-per-node 2 x.py
  does it fit into 16 GiB?      python -m torchdevice_cuda --memory 16GiB --report - train.py
  as if on an H200              python -m torchdevice_cuda --gpu h200 train.py
  tests that need a GPU         pytest --torchdevice
  what would not work           python -m torchdevice_cuda --scan src/ --driver mps
  for an image with no compiler python -m torchdevice_cuda --build --wheel-dir wheels
  something is wrong            python -m torchdevice_cuda --doctor
"""


def choices(flag: str) -> tuple[str, ...]:
    """Return the values of an option, if they are few."""
    if flag == "--gpu":
        return (*gpus.names(), "list")
    return FLAGS[flag].choices if flag in FLAGS and FLAGS[flag].choices else _MORE_CHOICES.get(flag, ())


def help_text() -> str:
    """Return the text of ``--help``."""
    titles = dict.fromkeys(option.group for option in settings.OPTIONS)
    groups = [(title, [row for option in settings.OPTIONS if option.group == title for row in _rows(option)])
              for title in titles]  # fmt: skip
    groups.append(("instead of running a program", list(_action_rows())))
    plan = [(f"plan {flag} VALUE", f"{words}: {allowed}") for flag, (allowed, words) in planning.FLAGS.items()]
    groups.append(("options of plan", plan))
    width = max(len(left) for _, rows in groups for left, _ in rows)
    shown = "\n\n".join(f"{title}:\n" + "\n".join(_lines(rows, width)) for title, rows in groups)
    of_options = _fill(option.variable for option in settings.OPTIONS)
    others = _fill(variable.name for variable in variables.VARIABLES if not variable.is_internal)
    return (
        f"{_USAGE}\n{shown}\n\nEach setting can be given as a variable instead; options win:\n{of_options}\n"
        f"Other variables (docs/settings.md):\n{others}\n\n{_EXAMPLES}"
    )


def _fill(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(names), width=100, initial_indent="  ", subsequent_indent="  ")


def _rows(option: settings.Option) -> Iterator[tuple[str, str]]:
    if option.flag is not None:
        yield f"{option.flag}{'[=VALUE]' if option.bare else ' VALUE'}", f"{option.help}: {option.allowed}"
    if option.switch is not None:
        yield option.switch


def _action_rows() -> Iterator[tuple[str, str]]:
    for action in ACTIONS:
        shown = "|".join(action.choices) or action.arguments
        yield f"{action.flag} {shown}".strip(), action.help
        for flag, (name, words, value) in OF_ACTIONS.items():
            if f"--{name}" == action.flag:
                yield f"  {flag} {value}", words


def _lines(rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    for left, right in rows:
        first, *more = textwrap.wrap(right, 116 - width)
        yield f"  {left:<{width}}  {first}"
        yield from (f"  {'':<{width}}  {line}" for line in more)


def completion(shell: str) -> str:
    """Return a shell's completion script for ``torchdevice-cuda``; ImportError if shtab is not installed."""
    import shtab

    parser = argparse.ArgumentParser(prog=NAME, add_help=False)
    for flag in (*FLAGS, *OF_ACTIONS):
        if flag in FLAGS and FLAGS[flag].bare:  # the next word is no value: values are offered with =
            for word in (flag, *(f"{flag}={value}" for value in choices(flag))):
                parser.add_argument(word, action="store_true", help=_described(flag))
            continue
        made = parser.add_argument(flag, choices=choices(flag) or None, help=_described(flag))
        if flag in _PATHS:
            made.complete = shtab.FILE if flag == "--report" else shtab.DIRECTORY  # type: ignore[attr-defined]
    for flag, form in FORMAT_FLAGS.items():
        parser.add_argument(flag, action="store_true", help=f"with --scan: --format {form}")
    for flag, (_, words) in SWITCHES.items():
        parser.add_argument(flag, action="store_true", help=words)
    for action in ACTIONS:
        if action.choices:
            parser.add_argument(action.flag, choices=action.choices, help=action.help)
        else:
            parser.add_argument(action.flag, action="store_true", help=action.help)
    parser.add_argument("-m", metavar="MODULE", help="the program is a module")
    parser.add_argument("-c", metavar="CODE", help="the program is this text")
    program = parser.add_argument("program", nargs="*", help="a script and its arguments, or nvidia-smi")
    program.complete = shtab.FILE  # type: ignore[attr-defined]
    text: str = shtab.complete(parser, shell)
    return text


def _described(flag: str) -> str:
    return FLAGS[flag].help if flag in FLAGS else OF_ACTIONS[flag][1]
