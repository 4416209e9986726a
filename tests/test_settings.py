"""Settings: read from the environment and the command line, and handed on to children."""

from __future__ import annotations

import pytest

from torchdevice_cuda import settings


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
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert settings.load({"memory": text}, {}).memory == size


#: For every setting a value that is not its default.
CHANGED = {
    "driver": "cpu",
    "policy": "faithful",
    "allow_redirects": True,
    "identity": "native",
    "float64": "raise",
    "devices": 2,
    "memory": 1 << 30,
    "gpu": "t4",
    "capability": (8, 0),
    "name": "Test GPU",
    "log_level": "DEBUG",
    "report": "-",
    "fallback": "error",
    "mlx": "always",
    "refusals": "disk",
    "visible_devices": "1",
    "build": False,
    "emulate_mps": True,
    "nvidia_smi": True,
    "hide_from": ("apex", "a.library"),
}


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
        ("TORCHDEVICE_MEMORY", "lots"),
        ("TORCHDEVICE_MEMORY", "0"),
        ("TORCHDEVICE_CAPABILITY", "8"),
        ("TORCHDEVICE_LOG_LEVEL", "LOUD"),
        ("TORCHDEVICE_FALLBACK", "maybe"),
        ("TORCHDEVICE_MLX", "sometimes"),
        ("TORCHDEVICE_REFUSALS", "forever"),
    ],
)
def test_unreadable_values_name_variable_value_and_what_is_allowed(variable: str, value: str) -> None:
    with pytest.raises(settings.SettingsError) as error:
        settings.load({}, {variable: value})
    allowed = next(option.allowed for option in settings.OPTIONS if option.variable == variable)
    assert variable in str(error.value)
    assert repr(value) in str(error.value)
    assert allowed in str(error.value)


def test_unknown_setting_is_refused() -> None:
    with pytest.raises(settings.SettingsError, match="'colour'"):
        settings.load({"colour": "red"}, {})


def test_arguments_are_checked_as_the_environment_is() -> None:
    with pytest.raises(settings.SettingsError, match="--devices='0'"):
        settings.load({"devices": 0}, {})


def test_redirects_only_on_true() -> None:
    assert settings.load({}, {"TORCH_ALLOW_REDIRECTS": "TRUE"}).allow_redirects
    assert not settings.load({}, {"TORCH_ALLOW_REDIRECTS": "1"}).allow_redirects
