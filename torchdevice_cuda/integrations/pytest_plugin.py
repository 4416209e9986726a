"""A plugin of pytest: ``pytest --torchdevice`` runs tests for CUDA on a machine without one.

It is found by its entry point and does nothing until it is asked. It activates before the first ``conftest.py`` is
imported, in every worker of pytest-xdist too, and keeps books on the device's memory, a test at a time.
"""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from .. import settings
from . import pytest_sanitizer, pytest_streams

#: The option, the setting that it makes, and its words. Each is an argument of ``activate()``.
_SETTINGS = (
    ("--torchdevice-driver", "driver"),
    ("--torchdevice-gpu", "gpu"),
    ("--torchdevice-devices", "devices"),
    ("--torchdevice-memory", "memory"),
    ("--torchdevice-policy", "policy"),
    ("--torchdevice-check-streams", "check_streams"),
    ("--torchdevice-sanitize", "sanitize"),
)
#: Tests that only NVIDIA's hardware can pass: those of kernels in CUDA C++, of speed.
MARK = "needs_real_cuda"
#: Tests that need several GPUs, or must fit into memory.
NEEDS = "torchdevice_needs"
_FALLBACK = "--torchdevice-fail-on-fallback"
#: Its name in the release before; it is accepted for one release.
_OLD_FALLBACK = "--torchdevice-fail-on-departure"
_LIMIT = "--torchdevice-memory-limit"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("torchdevice", "CUDA without a CUDA GPU (torchdevice_cuda)")
    group.addoption("--torchdevice", action="store_true", help="run tests for CUDA on this machine, without a CUDA GPU")
    for flag, field in _SETTINGS:
        option = settings.BY_FIELD[field]
        group.addoption(flag, metavar="VALUE", help=f"{option.help}: {option.allowed}")
    fails = "fail tests in which an operator falls back to MLX or the CPU"
    group.addoption(_FALLBACK, _OLD_FALLBACK, action="store_true", help=fails)
    group.addoption(_LIMIT, metavar="SIZE", type=_size, help="fail tests that held more of a GPU than this")
    group.addoption(
        pytest_streams.FLAG,
        metavar="adversarial:COUNT",
        type=pytest_streams.read_seeds,
        help=f"run tests marked {pytest_streams.MARK} once for each of this many orders of streams",
    )


def _size(text: str) -> int:
    try:
        size = settings.load({"memory": text}, {}).memory
    except settings.SettingsError as error:
        raise argparse.ArgumentTypeError(str(error).replace("--memory", _LIMIT)) from None
    assert size is not None
    return size


def _given(options: argparse.Namespace) -> dict[str, str]:
    found = ((field, getattr(options, _destination(flag), None)) for flag, field in _SETTINGS)
    return {field: value for field, value in found if value is not None}


def _destination(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Activate: a ``conftest.py`` may import torch, and a test may ask at its top whether there is CUDA."""
    options = early_config.known_args_namespace
    overrides = _given(options)
    others = (_FALLBACK, _LIMIT, pytest_streams.FLAG)
    # An option of a GPU asks for one.
    options.torchdevice |= bool(overrides) or any(getattr(options, _destination(flag), None) for flag in others)
    if not options.torchdevice:
        return
    from .. import activation, children
    from ..launch import failing
    from ..native.build import BuildError

    try:
        chosen = settings.load(overrides)
        pytest_sanitizer.separate()
        _build_ahead(early_config, chosen)
        activation.start(overrides, failing.end_program)
    except (BuildError, settings.SettingsError, activation.ActivationError, activation.DriverUnavailable) as error:
        words = str(error)
        for flag, field in _SETTINGS:
            words = words.replace(f"{settings.BY_FIELD[field].flag}=", f"{flag}=")
        raise pytest.UsageError(f"--torchdevice: {words}") from error
    children.export(chosen, overrides)


def _build_ahead(config: pytest.Config, chosen: settings.Settings) -> None:
    """Build what torch's import would build, where the user can see it: later pytest captures what is said."""
    from ..launch import building, failing
    from ..native import build

    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        # Parts are built later, in the middle of a test.
        build.unhidden = capture.global_and_fixture_disabled
    with build.unhidden():
        try:
            building.build_ahead(chosen)
        except build.BuildInterrupted as interruption:
            failing.say(str(interruption))
            # There is no session yet that pytest.exit could end.
            raise SystemExit(failing.INTERRUPTED) from None


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark, whether we are asked or not: a test suite that has it runs everywhere."""
    config.addinivalue_line(
        "markers", f"{MARK}(reason): only NVIDIA's hardware can pass it; skipped by --torchdevice and under the shim"
    )
    config.addinivalue_line(
        "markers",
        "torchdevice_check_streams(mode): check this test for races, or not: off, warn, error (the default); only with "
        "--torchdevice",
    )
    config.addinivalue_line(
        "markers",
        f"{NEEDS}(devices=1, memory=None): skip this test unless there are this many GPUs; fail it, with "
        "--torchdevice, if it holds more memory than this",
    )
    config.addinivalue_line(
        "markers", f"{pytest_streams.MARK}: run it in many orders of streams with {pytest_streams.FLAG}"
    )
    # What implies the option is known from the start only where the first configuration was parsed: in this process.
    config.option.torchdevice |= config.known_args_namespace.torchdevice
    if config.option.torchdevice:
        from .pytest_memory import Books
        from .pytest_races import StreamChecks

        config.pluginmanager.register(
            Books(config.option.torchdevice_fail_on_fallback, config.option.torchdevice_memory_limit, NEEDS),
            "torchdevice-books",
        )
        if settings.load(_given(config.option)).sanitize:
            config.pluginmanager.register(pytest_sanitizer.Sanitizer(), "torchdevice-sanitizer")
        checks = StreamChecks(config.option.torchdevice_check_streams or "off")
        config.pluginmanager.register(checks, "torchdevice-races")
        if config.option.torchdevice_streams:
            config.pluginmanager.register(
                pytest_streams.Seeds(config.option.torchdevice_streams), "torchdevice-streams"
            )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs the real thing, whatever activated: the option, the shim, the command line or a conftest."""
    mark = item.get_closest_marker(MARK)
    if mark is not None and _is_emulated():
        why = mark.kwargs.get("reason") or (mark.args[0] if mark.args else "")
        pytest.skip(f"needs a real CUDA GPU{f': {why}' if why else ''}")
    needed = item.get_closest_marker(NEEDS)
    if needed is not None:
        import torch

        there, wanted = torch.cuda.device_count(), needed.kwargs.get("devices", 1)
        if there < wanted:
            gpus = "a GPU" if wanted == 1 else f"{wanted} GPUs"
            pytest.skip(f"needs {gpus}, there are {there}: --torchdevice-devices")


def _is_emulated() -> bool:
    """Return whether CUDA is emulated in this process, or will be once torch is imported."""
    from .. import activation, drivers

    driver = drivers.installed()
    return activation.is_active() and (driver is None or driver.name != "cuda")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the requested settings; the driver is chosen at the first import of torch."""
    if not config.option.torchdevice:
        return None
    given: dict[str, Any] = _given(config.option)
    asked = ", ".join(f"{field} {value}" for field, value in given.items())
    return f"torchdevice: CUDA is emulated{f' ({asked})' if asked else ''}"
