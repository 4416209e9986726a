"""Settings: read from the environment and the command line, and handed on to children."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from pathlib import Path

import pytest
from harness.processes import ROOT
from test_meanings import CHANGED

from torchdevice_cuda import children, settings
from torchdevice_cuda.launch import cli
from torchdevice_cuda.settings import gpus
from torchdevice_cuda.settings.setting_support import Ignored, Refused


def test_environment_is_read_and_overridden() -> None:
    environ = {"TORCHDEVICE_DRIVER": "CPU", "TORCHDEVICE_MEMORY": "2GiB", "TORCHDEVICE_CAPABILITY": "8.6"}
    chosen = settings.load({"devices": "3", "memory": None}, environ)
    assert chosen.driver == "cpu"
    assert chosen.memory == 2 << 30
    assert chosen.capability == (8, 6)
    assert chosen.devices == 3
    assert settings.load({"memory": 1 << 20}, environ).memory == 1 << 20


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512", 512),
        ("1KiB", 1024),
        ("1.5 MiB", 3 << 19),
        ("16GiB", 16 << 30),
        ("2GB", 2 * 10**9),
        ("3g", 3 << 30),
        ("1e9", 10**9),
        ("1.5E3KiB", 1500 * 1024),
        ("9007199254740993", 9007199254740993),
        ("1", 1),
        (" 7 b ", 7),
        ("1k", 1 << 10),
        ("1KB", 10**3),
        ("1mib", 1 << 20),
        ("1M", 1 << 20),
        ("1MB", 10**6),
        ("1TiB", 1 << 40),
        ("1TB", 10**12),
        ("1PiB", 1 << 50),
        ("1PB", 10**15),
        ("8191PiB", 8191 << 50),
        ("2e-1KiB", 204),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert settings.load({"memory": text}, {}).memory == size


@pytest.mark.parametrize("option", settings.OPTIONS, ids=lambda option: option.field)
def test_every_setting_survives_a_child_process(option: settings.Option) -> None:
    chosen = settings.load({option.field: CHANGED[option.field]}, {})
    assert getattr(settings.Settings(), option.field) != CHANGED[option.field]
    assert getattr(chosen, option.field) == CHANGED[option.field]
    assert settings.load({}, settings.as_environment(chosen)) == chosen


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TORCHDEVICE_DRIVER", "gpu"),
        ("TORCHDEVICE_POLICY", "fast"),
        ("TORCHDEVICE_DEVICES", "0"),
        ("TORCHDEVICE_DEVICES", "two"),
        ("TORCHDEVICE_DEVICES", "65"),
        ("TORCHDEVICE_MEMORY", "lots"),
        ("TORCHDEVICE_MEMORY", "0"),
        ("TORCHDEVICE_MEMORY", "0.9"),
        ("TORCHDEVICE_MEMORY", "8192PiB"),
        ("TORCHDEVICE_MEMORY", "9223372036854775807"),
        ("TORCHDEVICE_MEMORY", "1XiB"),
        ("TORCHDEVICE_MEMORY", "GiB"),
        ("TORCHDEVICE_NAME", "  "),
        ("TORCHDEVICE_NAME", "a\0b"),
        ("TORCHDEVICE_NAME", "a\ud800b"),
        ("TORCHDEVICE_REPORT", " "),
        ("TORCHDEVICE_BUILD", "2"),
        ("TORCHDEVICE_BUILD", "maybe"),
        ("TORCH_ALLOW_REDIRECTS", "perhaps"),
        ("TORCHDEVICE_DEVICES", "0x2"),
        ("TORCHDEVICE_DEVICES", "1_0"),
        ("TORCHDEVICE_DEVICES", "\uff12"),
        ("TORCHDEVICE_DRIVER", " "),
        ("TORCHDEVICE_NAME", os.fsdecode(b"\xff")),
        ("TORCHDEVICE_DRIVER", "c\0pu"),
        ("TORCHDEVICE_CAPABILITY", "8"),
        ("TORCHDEVICE_CAPABILITY", "8.10"),
        ("TORCHDEVICE_LOG_LEVEL", "LOUD"),
        ("TORCHDEVICE_FALLBACK", "maybe"),
        ("TORCHDEVICE_MLX", "sometimes"),
        ("TORCHDEVICE_REFUSAL_CACHE", "forever"),
        ("TORCHDEVICE_REFUSALS", "forever"),
    ],
)
def test_unreadable_values_name_variable_value_and_what_is_allowed(variable: str, value: str) -> None:
    with pytest.raises(settings.SettingsError) as error:
        settings.load({}, {variable: value})
    allowed = next(option.allowed for option in settings.OPTIONS if variable in option.variables)
    assert variable in str(error.value)
    assert repr(value) in str(error.value)
    assert allowed in str(error.value)


def test_unknown_setting_is_refused() -> None:
    with pytest.raises(settings.SettingsError, match="there is no setting 'colour'; known: "):
        settings.load({"colour": "red"}, {})
    with pytest.raises(settings.SettingsError, match=r"there is no setting 'drvier'; did you mean driver\?; known: "):
        settings.load({"drvier": "cpu"}, {})


def test_arguments_are_checked_as_the_environment_is() -> None:
    with pytest.raises(settings.SettingsError, match="--devices='0'"):
        settings.load({"devices": 0}, {})


@pytest.mark.parametrize("value", ["TRUE", "true", "1", "yes", "on"])
def test_redirects_are_allowed(value: str) -> None:
    assert settings.load({}, {"TORCH_ALLOW_REDIRECTS": value}).allow_redirects


@pytest.mark.parametrize("value", ["", "false", "False", "0", "no", "off"])
def test_redirects_are_the_drivers_default(value: str) -> None:
    assert not settings.load({}, {"TORCH_ALLOW_REDIRECTS": value}).allow_redirects
    assert [settings.BY_FIELD["allow_redirects"].write(value) for value in (True, False)] == ["true", "false"]


@pytest.mark.parametrize(
    "given",
    [
        {"capability": 8},
        {"capability": (8,)},
        {"capability": (8, 0, 1)},
        {"hide_from": 5},
        {"hide_from": ("apex", 5)},
        {"build": []},
        {"build": 2},
        {"devices": True},
        {"devices": 2.5},
        {"driver": b"cpu"},
    ],
    ids=str,
)
def test_arguments_of_another_type_are_refused(given: dict[str, object]) -> None:
    """Truthy and overlong values once passed, and others ended in a TypeError that named nothing."""
    ((field, _),) = given.items()
    with pytest.raises(
        settings.SettingsError, match=f"^(--{field.replace('_', '-')}|{field})=.* cannot be read; allowed: "
    ):
        settings.load(given, {})


#: Variables that are not named after their setting.
VARIABLES = {
    "allow_redirects": "TORCH_ALLOW_REDIRECTS",
    "visible_devices": "CUDA_VISIBLE_DEVICES",
    "nvidia_smi": "TORCHDEVICE_WITH_NVIDIA_SMI",
}


@pytest.mark.parametrize("option", settings.OPTIONS, ids=lambda option: option.field)
def test_a_variable_and_an_option_are_named_after_their_setting(option: settings.Option) -> None:
    assert option.variable == VARIABLES.get(option.field, f"TORCHDEVICE_{option.field.upper()}")
    assert option.flag in (None, f"--{option.field.replace('_', '-')}")
    assert settings.BY_FIELD[option.field] is option
    with pytest.raises(dataclasses.FrozenInstanceError):
        option.field = "other"  # type: ignore[misc]


@pytest.mark.parametrize("option", settings.OPTIONS, ids=lambda option: option.field)
def test_defaults_and_every_word_that_is_allowed_can_be_read(option: settings.Option) -> None:
    default = getattr(settings.Settings(), option.field)
    if default is not None:
        assert option.read(option.write(default)) == default
    if option.choices:
        words, is_switch = option.allowed.split(", "), isinstance(default, bool)
        read = [option.read(word) for word in words]
        assert read == ([True] * 4 + [False] * 4 if is_switch else words)
        assert set(option.choices) <= set(words)
        assert option.read(f" {words[0].swapcase()} ") == read[0]
        with pytest.raises(ValueError, match=words[0]):
            option.read(f"{words[0]} {words[0]}")


#: Old names, which are accepted for one release, and the new ones.
RENAMED = {"refusals": "refusal_cache"}


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_is_accepted(old: str) -> None:
    new = RENAMED[old]
    value, default = CHANGED[new], getattr(settings.Settings(), new)
    option = settings.BY_FIELD[new]
    variable, old_variable = option.variable, f"TORCHDEVICE_{old.upper()}"
    assert cli.parse([f"--{old}", value]).overrides == {new: value}
    assert getattr(settings.load({old: value}, {}), new) == value
    chosen = settings.load({}, {old_variable: value})
    assert getattr(chosen, new) == value
    assert settings.as_environment(chosen) == {variable: value}
    assert getattr(settings.load({}, {old_variable: value, variable: default}), new) == default
    with pytest.raises(settings.SettingsError, match=f"^{old_variable}='zzz' cannot be read; allowed: "):
        settings.load({}, {old_variable: "zzz"})


@pytest.mark.parametrize("old", RENAMED)
def test_an_option_overrides_the_old_variable_in_children(old: str) -> None:
    new, old_variable = RENAMED[old], f"TORCHDEVICE_{old.upper()}"
    environ = {old_variable: CHANGED[new]}
    given = {new: getattr(settings.Settings(), new)}
    children.export(settings.load(given, environ), given, environ)
    inherited = {name: value for name, value in environ.items() if name != "PYTHONPATH"}
    assert getattr(settings.load({}, inherited), new) == given[new]


def test_defaults() -> None:
    chosen = settings.load({}, {})
    assert chosen == settings.Settings()
    assert (chosen.driver, chosen.policy, chosen.identity, chosen.float64) == ("auto", None, "cuda", "downcast")
    assert (chosen.devices, chosen.memory, chosen.log_level) == (1, None, "WARNING")
    assert (chosen.fallback, chosen.mlx, chosen.refusal_cache) == ("allow", "auto", "memory")
    assert (chosen.allow_redirects, chosen.build, chosen.emulate_mps, chosen.nvidia_smi) == (False, True, False, False)
    assert settings.as_environment(chosen) == {}
    with pytest.raises(dataclasses.FrozenInstanceError):
        chosen.driver = "cpu"  # type: ignore[misc]


def test_the_page_of_drivers_lists_them_in_the_order_of_auto() -> None:
    page = (ROOT / "docs" / "drivers.md").read_text(encoding="utf-8").splitlines()
    head = next(line for line in page if line.startswith("| |"))
    assert head.strip("| ").split(" | ") == [f"`{driver}`" for driver in settings.DRIVERS]
    assert all(importlib.util.find_spec(module) for module in settings.DRIVERS.values())


def test_an_empty_variable_counts_as_unset_except_visible_devices() -> None:
    environ = {"TORCHDEVICE_DRIVER": "", "CUDA_VISIBLE_DEVICES": ""}
    chosen = settings.load({}, environ)
    assert chosen.driver == "auto"
    assert chosen.visible_devices == ""


def test_the_reported_capability_is_the_chosen_one_or_the_profiles() -> None:
    assert settings.Settings().claimed_capability == (7, 0)
    assert settings.Settings().profile is None
    of_profile = settings.load({"gpu": "H200"}, {})
    assert of_profile.profile is gpus.find("h200")
    assert of_profile.claimed_capability == (9, 0)
    assert settings.load({"gpu": "h200", "capability": (12, 1)}, {}).claimed_capability == (12, 1)


def test_limits() -> None:
    assert settings.load({"devices": 64}, {}).devices == 64
    assert settings.load({"devices": 1}, {}).devices == 1
    with pytest.raises(settings.SettingsError, match=r"--gpu='h201' cannot be read; .*; the nearest are .*h200"):
        settings.load({"gpu": "h201"}, {})
    with pytest.raises(settings.SettingsError) as error:
        settings.load({"gpu": "???"}, {})
    assert str(error.value) == f"--gpu='???' cannot be read; allowed: {settings.BY_FIELD['gpu'].allowed}"


def test_a_path_is_seen_from_where_it_was_given() -> None:
    assert settings.load({"report": "-"}, {}).report == "-"
    assert settings.load({"report": "r.html"}, {}).report == str(Path.cwd() / "r.html")


def test_settings_that_do_not_act_on_a_driver_are_refused() -> None:
    with pytest.raises(settings.SettingsError, match=r"^--capability=8.0 is refused on the cuda driver: the real GPU "):
        settings.load({"driver": "cuda", "capability": "8.0"}, {})
    chosen = settings.load({"driver": "cuda", "name": "x", "nvidia_smi": True, "float64": "cpu"}, {})
    lines = settings.describe_unsupported(chosen, "cuda", Ignored)
    assert [line.partition(" has no effect on the cuda driver: ")[0] for line in lines] == [
        "--name=x",
        "TORCHDEVICE_WITH_NVIDIA_SMI=1",
        "--float64=cpu",
    ]
    assert settings.describe_unsupported(chosen, "cuda", Refused) == []


def test_visible_devices_are_read_from_the_current_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "CUDA_VISIBLE_DEVICES", "3")
    assert settings.visible_devices_now() == "3"
    monkeypatch.delitem(os.environ, "CUDA_VISIBLE_DEVICES")
    assert settings.visible_devices_now() is None
