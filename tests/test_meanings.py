"""Every setting on every driver acts, is logged as without effect, or is refused; every pair is tested."""

from __future__ import annotations

import logging
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import ChildConfig, child, in_child, run_forked

from torchdevice_cuda import settings
from torchdevice_cuda.settings import find_exception
from torchdevice_cuda.settings.setting_support import Ignored, Refused
from torchdevice_cuda.settings.world import World

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
PLACES = {driver: ChildConfig(driver, {"driver": driver}) for driver in settings.DRIVERS}
#: For every setting a value that is not its default.
CHANGED: dict[str, Any] = {
    "driver": "cpu",
    "policy": "accelerate",
    "allow_redirects": True,
    "identity": "native",
    "float64": "raise",
    "devices": 2,
    "memory": 1 << 30,
    "gpu": "rtx-4090",
    "capability": (8, 6),
    "name": "A name",
    "log_level": "DEBUG",
    "report": "-",
    "fallback": "error",
    "mlx": "off",
    "refusal_cache": "disk",
    "visible_devices": "0",
    "build": False,
    "emulate_mps": True,
    "nvidia_smi": True,
    "hide_from": (__name__,),
    "triton": "interpreted",
    "compile": "triton",
    "stand_ins": ("xformers",),
    "check_streams": "error",
    "clock": "gpu",
    "rehearse": "on",
    "world": World(4),
    "streams": 0,
    "sanitize": "synccheck:3",
}
ACTING = [option.field for option in settings.OPTIONS if not option.chooses_driver]
PAIRS = [(field, driver) for field in ACTING for driver in settings.DRIVERS]


def pairs(kind: type[Any]) -> list[tuple[str, str]]:
    return [(field, driver) for field, driver in PAIRS if isinstance(find_exception(field, driver), kind)]


def test_every_setting_is_here() -> None:
    assert {option.field for option in settings.OPTIONS} == set(CHANGED)
    assert {driver for option in settings.OPTIONS for driver in option.exceptions} <= set(settings.DRIVERS)


# ------------------------------------------------------------------------------------ refused
@pytest.mark.parametrize(("field", "driver"), pairs(Refused))
def test_a_setting_that_would_mislead_is_refused(field: str, driver: str) -> None:
    option = settings.BY_FIELD[field]
    with pytest.raises(settings.SettingsError, match=f"{option.flag}=.* is refused on the {driver} driver: "):
        settings.load({"driver": driver, field: CHANGED[field]}, {})
    settings.load({field: CHANGED[field]}, {})  # the driver is yet to be chosen


@pytest.mark.mps
@pytest.mark.native
@pytest.mark.parametrize("chosen", [["--driver", "mps"], []], ids=["named", "auto"])
def test_a_refusal_is_an_exit_status(chosen: list[str]) -> None:
    command = ("-m", "torchdevice_cuda", *chosen, "--devices", "2", "-c", "import torch")
    done = run_forked(*command, environment={"TORCHDEVICE_EMULATE_MPS": "1"}, check=False)
    assert done.status != 0
    assert "--devices=2 is refused on the mps driver" in done.err.splitlines()[-1]


# ------------------------------------------------------------------------------------ nothing
def flags(fields: list[str]) -> list[str]:
    given = [(settings.BY_FIELD[field], CHANGED[field]) for field in fields]
    return [word for option, value in given if option.flag for word in (option.flag, option.write(value))]


@pytest.mark.parametrize("driver", [pytest.param(name, marks=place.marks) for name, place in PLACES.items()])
def test_settings_without_effect_are_logged_one_per_line(driver: str) -> None:
    fields = [field for field, name in pairs(Ignored) if name == driver]
    command = ("-m", "torchdevice_cuda", "--driver", driver, *flags(fields), "-c", "import torch")
    unflagged = [(settings.BY_FIELD[field], CHANGED[field]) for field in fields if not settings.BY_FIELD[field].flag]
    given = {option.variable: option.write(value) for option, value in unflagged}
    environment = {**PLACES[driver].full_environment(), **given}
    done = run_forked("-m", "torchdevice_cuda", "--log-level", "INFO", *command[2:], environment=environment)
    lines = [line for line in done.err.splitlines() if "has no effect on" in line]
    spelled = [settings.BY_FIELD[field].flag or settings.BY_FIELD[field].variable for field in fields]
    assert sorted(line.partition("=")[0] for line in lines) == sorted(spelled)
    assert "has no effect" not in run_forked(*command, environment=environment).err


# --------------------------------------------------------------------------------------- acts
def acting(driver: str, fields: list[str], **others: Any) -> ChildConfig:
    """Give a driver those of these settings that act on it."""
    changed = {field: CHANGED[field] for field in fields if find_exception(field, driver) is None}
    return PLACES[driver].with_settings(**changed, **others)


#: Settings whose effects others would hide.
APART = ["allow_redirects", "gpu", "mlx", "nvidia_smi", "hide_from", "triton", "streams"]
#: Settings with tests of their own.
ALONE = ["visible_devices", "report", "compile", "rehearse", "world"]
TOGETHER = [[field for field in ACTING if field not in APART + ALONE], APART]
GROUPS = [(acting(driver, fields), fields) for driver in settings.DRIVERS for fields in TOGETHER]
#: With one device, all are hidden; of two, one.
HIDING = {
    driver: place.with_settings(visible_devices="")
    if find_exception("devices", driver)
    else place.with_settings(devices=2, visible_devices="0")
    for driver, place in PLACES.items()
    if find_exception("visible_devices", driver) is None
}


def real(x: Any) -> str:
    import torch

    return str(torch._C.TensorBase.device.__get__(x).type)


def redirects() -> None:
    import torch

    assert real(torch.zeros(1)) == real(torch.zeros(1, device="cuda")) != "cpu"


def identity() -> None:
    import torch

    assert torch.zeros(1, device="cuda").device.type == "mps"


def float64() -> None:
    import torch

    with pytest.raises(TypeError, match="float64"):
        torch.zeros(1, dtype=torch.float64, device="cuda")


def devices() -> None:
    import torch

    assert torch.cuda.device_count() == CHANGED["devices"]


def memory() -> None:
    import torch

    assert torch.cuda.mem_get_info()[1] == CHANGED["memory"]


def gpu() -> None:
    import torch

    assert torch.cuda.get_device_properties(0).multi_processor_count == 128


def capability() -> None:
    import torch

    assert torch.cuda.get_device_capability() == CHANGED["capability"]


def name() -> None:
    import torch

    assert torch.cuda.get_device_name() == CHANGED["name"]


def log_level() -> None:
    logger = logging.getLogger("torchdevice_cuda")
    assert logger.level == logging.DEBUG
    assert logger.handlers


def fallback() -> None:
    import torch

    with pytest.raises(NotImplementedError, match="would leave the accelerator"):
        torch.heaviside(torch.ones(2, device="cuda"), torch.ones(2, device="cuda"))


def mlx() -> None:
    import torch

    from torchdevice_cuda.report.departures import departures

    departures.clear()
    torch.heaviside(torch.ones(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda"))
    assert {row[2] for row in departures.rows()} == {"CPU"}


def nvidia_smi() -> None:
    found = shutil.which("nvidia-smi")
    assert found is not None
    assert "torchdevice_cuda nvidia-smi" in Path(found).read_text()


def hide_from() -> None:
    import torch

    assert not torch.cuda.is_available()
    assert eval("torch.cuda.is_available()", {"torch": torch, "__name__": "another"})


def triton() -> None:
    import torch

    jit = pytest.importorskip("triton").jit
    import triton.language as tl

    @jit
    def kernel(x):  # type: ignore[no-untyped-def]
        tl.store(x, 1)

    kernel[(1,)](torch.zeros(1, device="cuda"))
    assert "torchdevice_cuda.triton.interpreting" in sys.modules
    assert "torchdevice_cuda.triton.compiler" not in sys.modules


def refusal_cache() -> None:
    from torchdevice_cuda.fallback.capabilities import refusals as found

    assert found._key is not None


def stand_ins() -> None:
    import importlib.util

    assert importlib.util.find_spec("xformers") is not None


def check_streams() -> None:
    import torch

    import torchdevice_cuda

    written = torch.zeros(4, device="cuda")
    with pytest.raises(torchdevice_cuda.StreamRaceError), torch.cuda.stream(torch.cuda.Stream()):
        written.add_(1)
    torch.cuda.synchronize()  # others reuse the memory


def sanitize() -> None:
    from torchdevice_cuda.cuda_cpp import nvcc

    assert nvcc.checked()


def clock() -> None:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    x = torch.zeros(1 << 26, device="cuda")
    torch.cuda._sleep(10**9)  # what follows is issued before the GPU reaches it, however slow this machine is
    start.record()
    x.add_(1)
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) < 2  # no processor adds 64 million numbers in that time


def streams() -> None:
    import torch

    copied = torch.zeros(4, pin_memory=True)
    copied.copy_(torch.ones(4, device="cuda"), non_blocking=True)
    assert copied.tolist() == [0] * 4
    torch.cuda.synchronize()
    assert copied.tolist() == [1] * 4


PROBES: dict[str, Callable[[], None]] = {
    **{probe.__name__: probe for probe in (identity, float64, devices, memory, capability, name, log_level)},
    **{probe.__name__: probe for probe in (fallback, gpu, mlx, refusal_cache, nvidia_smi, hide_from, triton)},
    "check_streams": check_streams,
    "clock": clock,
    "sanitize": sanitize,
    "stand_ins": stand_ins,
    "streams": streams,
    "policy": redirects,
    "allow_redirects": redirects,
}


@child(*(place for place, _ in GROUPS))
@pytest.mark.parametrize("field", PROBES)
def test_an_accepted_setting_acts(place: ChildConfig, field: str) -> None:
    if field not in place.settings:
        pytest.skip("given in another place, or it does not act here")
    PROBES[field]()


def test_every_setting_that_acts_is_probed() -> None:
    assert set(PROBES) == set(ACTING) - set(ALONE)
    probed = {(field, place.driver) for place, fields in GROUPS for field in fields if field in place.settings}
    probed |= {("visible_devices", driver) for driver in HIDING} | {("report", driver) for driver in PLACES}
    probed |= {("rehearse", "virtual")}  # tests/rehearsal/test_rehearse.py
    probed |= {("world", "virtual")}  # tests/rehearsal/test_world.py
    probed |= {("compile", "virtual")}  # tests/native/test_compile_triton.py
    assert probed == set(PAIRS) - set(pairs(Ignored)) - set(pairs(Refused))


@child(*HIDING.values())
def test_devices_are_hidden(place: ChildConfig) -> None:
    import torch

    assert torch.cuda.device_count() == len(place.settings["visible_devices"])


def use() -> None:
    import torch

    torch.zeros(1, device="cuda").cpu()


@pytest.mark.parametrize("driver", [pytest.param(name, marks=place.marks) for name, place in PLACES.items()])
def test_a_report_is_written(driver: str, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    in_child(use, PLACES[driver].with_settings(report=str(report)))
    assert report.read_text(encoding="utf-8")


# --------------------------------------------------------------------------------------- docs
def test_the_page_is_in_step() -> None:
    from settings_table import PAGE, fill

    text = PAGE.read_text(encoding="utf-8")
    assert fill(text) == text, "python tools/settings_table.py --write"


def test_the_page_has_every_option_of_the_command_line() -> None:
    from settings_table import PAGE

    from torchdevice_cuda.launch import cli, options, planning

    page = PAGE.read_text(encoding="utf-8")
    read = {*cli.FLAGS, *options.SWITCHES, *cli._ACTIONS, *options.OF_ACTIONS, *options.FORMAT_FLAGS, "-h", "-V"}
    read |= {f"plan {flag}" for flag in planning.FLAGS}
    assert {flag for flag in read if f"`{flag}`" not in page} == set()
    assert set(re.findall(r"^\| `((?:plan )?-[^`]*)`", page, re.MULTILINE)) - read == set()
