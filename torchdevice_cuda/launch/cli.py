"""The command line: ``python -m torchdevice_cuda [options] program args…``.

Options end where the program begins; all following words belong to the program.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence

from .. import settings
from .._version import __version__
from ..settings import folders, gpus, variables
from . import failing, options, planning, program

NAME = failing.NAME
_SMI = "nvidia-smi"
#: The word that prints what an issue of PyTorch asks for.
_ENV = "env"
#: The program that does. It calls nvidia-smi, which lists GPUs of other running processes unless it finds none.
_COLLECT = f"""
import os, tempfile
from torch.utils.collect_env import main
with tempfile.TemporaryDirectory() as folder:
    os.environ["{folders.RUNTIME_DIR}"] = folder
    main()
"""
FLAGS = {**options.FLAGS, **options.OLD_FLAGS}
#: Actions that replace running a program, by option.
_ACTIONS = {action.flag: action for action in options.ACTIONS}


class UsageError(Exception):
    """The command line is invalid."""


@dataclasses.dataclass
class Request:
    """A parsed command line."""

    overrides: dict[str, str] = dataclasses.field(default_factory=dict)
    #: or: script, module, command, stdin, nvidia-smi, gpus, or an action of the table, without its dashes
    action: str = "interactive"
    target: str = ""  # the script, module or code
    value: str = ""  # of an action, or of its option
    args: list[str] = dataclasses.field(default_factory=list)
    #: plan the program instead of only running it
    plan: planning.Plan | None = None


def parse(words: Sequence[str]) -> Request:
    """Parse the words after ``python -m torchdevice_cuda``."""
    request = Request()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if request.action in ("doctor", "scan") and (
            word in ("-", "--") or word[:2] in ("-m", "-c") or word[:1] != "-"
        ):
            request.args.append(word)  # names of checks, or paths, which the action itself checks
            continue
        if word == "-":
            return _program(request, "stdin", word, rest)
        if word == _SMI:
            return _program(request, _SMI, word, rest)
        if word == planning.NAME:
            return _plan(request, rest)
        if word == _ENV and not os.path.exists(_ENV):
            request.overrides.update(options.SWITCHES["--with-nvidia-smi"][0])
            return _program(request, "command", _COLLECT, rest)
        if not word.startswith("-"):
            return _program(request, "script", word, rest)
        if word == "--":
            return _program(request, "script", rest.pop(0), rest) if rest else request
        if word[:2] in ("-m", "-c"):  # python also accepts the argument attached: -mmodule
            kind, what = ("module", "a module's name") if word[:2] == "-m" else ("command", "the code")
            if not word[2:] and not rest:
                raise UsageError(f"{word} needs {what}: add it")
            return _program(request, kind, word[2:] or rest.pop(0), rest)
        if word in ("-h", "--help"):
            request.action = "help"
            return request
        flag, attached, value = word.partition("=")
        if word in ("-V", *_ACTIONS):
            request.action = "version" if word == "-V" else word[2:]
            if word in _ACTIONS and _ACTIONS[word].choices:
                request.value = _value(word, rest, ", ".join(_ACTIONS[word].choices))
        elif word in options.FORMAT_FLAGS and request.action == "scan":
            request.value = options.FORMAT_FLAGS[word]
        elif flag in options.OF_ACTIONS:
            if options.OF_ACTIONS[flag][0] != request.action:
                raise UsageError(f"{flag} belongs to --{options.OF_ACTIONS[flag][0]}, which comes before it; add that")
            given = [value] if attached and value else [] if attached else rest
            request.value = _value(flag, given, options.OF_ACTIONS[flag][1])
        elif word in options.SWITCHES:
            request.overrides.update(options.SWITCHES[word][0])
        else:
            _setting(request, word, rest)
    return request


def _plan(request: Request, rest: list[str]) -> Request:
    """Parse the plan's options and its program."""
    try:
        plan = planning.read_options(rest)
    except planning.PlanError as error:
        raise UsageError(str(error)) from None
    planned = parse(rest)
    if planned.action not in ("script", "module", "command", "stdin") or planned.plan is not None:
        raise UsageError(
            "plan needs a program after it: python -m torchdevice_cuda plan train.py, -m module, -c code, or -"
        )
    planned.plan = plan
    planned.overrides = planning.override({**request.overrides, **planned.overrides})
    return planned


def _program(request: Request, action: str, target: str, args: list[str]) -> Request:
    if request.action == "interactive":  # --info and similar actions run no program
        request.action = action
    request.target, request.args = target, args
    return request


def _value(flag: str, rest: list[str], allowed: str) -> str:
    if not rest:
        raise UsageError(f"{flag} needs a value; allowed: {allowed}")
    return rest.pop(0)


def _setting(request: Request, word: str, rest: list[str]) -> None:
    flag, attached, value = word.partition("=")
    option = FLAGS.get(flag)
    if option is None:
        if attached and (flag in options.SWITCHES or (flag in _ACTIONS and not _ACTIONS[flag].choices)):
            raise UsageError(f"{flag} takes no value, and got {value!r}; see python -m torchdevice_cuda --help")
        hint = (
            variables.suggest(
                flag, (*options.FLAGS, *options.SWITCHES, *options.OF_ACTIONS, *options.FORMAT_FLAGS, *_ACTIONS)
            )
            or ";"
        )
        raise UsageError(f"there is no option {flag}{hint} see python -m torchdevice_cuda --help")
    if not attached:
        value = option.bare or _value(flag, rest, option.allowed)
    if option.field == "gpu" and value == "list":
        request.action = "gpus"
    else:
        request.overrides[option.field] = value


def version_text() -> str:
    """Return the text of ``--version``; torch's version comes from its metadata, as importing it takes seconds."""
    import platform
    from importlib import metadata

    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = "not installed"
    return f"{NAME} {__version__} (torch {torch}, Python {platform.python_version()})"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status, unless the program itself ends the process."""
    try:
        request = parse(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        return _fail(str(error))
    if request.action == "help":
        return _show(options.help_text())
    if request.action == "gpus":
        return _show(f"{gpus.table()}\n")
    if request.action == "version":
        return _show(f"{version_text()}\n")
    if request.action == "completion":
        return _complete(request.value)

    program.drop_first_entry()
    from .. import activation, children

    try:
        chosen = settings.load(request.overrides)
        if request.action in ("info", "patches"):
            from . import info

            text = (info.text if request.action == "info" else info.patches)(request.overrides)
            return _show(f"{text}\n")
        if request.action == _SMI:
            from ..nvidia.smi import command

            return command.main(request.args, chosen)
        if request.action == "scan":
            return _scan(request, chosen)
        if request.action == "doctor":
            return _examine(request, chosen)
        if request.action in ("build", "cache-key"):
            return _build(request, chosen)
        activation.start(request.overrides, failing.end_program)
        if request.plan is not None:
            planning.start(request.plan)
    except (
        *(settings.SettingsError, planning.PlanError),
        *(activation.ActivationError, activation.DriverUnavailable),
    ) as error:
        return _fail(str(error))
    except KeyboardInterrupt as interruption:
        from ..native.build import BuildInterrupted

        if not isinstance(interruption, BuildInterrupted):
            raise
        failing.say(str(interruption))
        return failing.INTERRUPTED
    children.export(chosen, request.overrides)
    return _run(request)


def _show(text: str) -> int:
    """Print the text; a reader such as ``head`` may close the pipe early."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        # The interpreter flushes once more when it ends, and would raise then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _examine(request: Request, chosen: settings.Settings) -> int:
    from ..doctor import examination

    try:
        text, status = examination.examine(request.args, chosen, request.overrides)
    except examination.RequestError as error:
        return _fail(str(error))
    _show(text)
    return status


def _scan(request: Request, chosen: settings.Settings) -> int:
    from .scan import command

    try:
        text, status = command.run(request.args, request.value or "text", chosen)
    except command.ScanError as error:
        return _fail(str(error))
    _show(text)
    return status


def _complete(shell: str) -> int:
    if shell not in options.SHELLS:
        hint = variables.suggest_value(shell, options.SHELLS)
        return _fail(f"--completion knows no shell {shell!r}; allowed: {', '.join(options.SHELLS)}{hint}")
    try:
        return _show(options.completion(shell))
    except ImportError as error:
        if error.name != "shtab":
            raise
        return _fail("--completion needs the package shtab: pip install shtab")


def _build(request: Request, chosen: settings.Settings) -> int:
    """Build, or print the cache key of what would be built."""
    from ..native.build import BuildError
    from . import building

    try:
        if request.action == "cache-key":
            return _show(f"{building.cache_key(chosen)}\n")
        wanted = [request.target, *request.args] if request.target else []
        return _show(f"{building.build_parts(chosen, request.value, wanted)}\n")
    except BuildError as error:
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
        if target == "pip":
            from . import isolation

            isolation.warn(args)
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
    """Return whether stdin is a terminal: python reads a program from anything else."""
    return sys.stdin is not None and sys.stdin.isatty()


def _fail(message: str) -> int:
    failing.say(message)
    return failing.STATUS
