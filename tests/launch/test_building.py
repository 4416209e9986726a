"""Builds before a program starts, and their names in a cache."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from harness import python
from native.compilers import Bench

from torchdevice_cuda import settings
from torchdevice_cuda.launch import building
from torchdevice_cuda.native import build


@pytest.mark.parametrize(
    ("given", "platform", "nvidia", "built"),
    [
        ({"driver": "virtual"}, "darwin", True, ["cuda"]),
        ({}, "linux", False, ["cuda"]),
        ({}, "linux", True, []),
        ({}, "darwin", False, []),
        ({"emulate_mps": True}, "linux", False, ["mps"]),
        ({"driver": "cpu"}, "linux", False, []),
        ({"driver": "mps"}, "darwin", False, []),
        ({"driver": "virtual", "build": False}, "linux", False, []),
    ],
)
def test_builds_before_the_program_starts(
    given: dict[str, object], platform: str, nvidia: bool, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(build, "library", found.append)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(building, "has_nvidia_driver", lambda: nvidia)
    building.build_ahead(settings.load(given, {}))
    assert found == built


def test_a_named_driver_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(kind: str) -> None:
        raise build.BuildError(kind)

    monkeypatch.setattr(build, "library", fail)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(building, "has_nvidia_driver", lambda: False)
    with pytest.raises(build.BuildError):
        building.build_ahead(settings.load({"driver": "virtual"}, {}))
    building.build_ahead(settings.load({}, {}))


def test_the_cache_key(tmp_path: Path) -> None:
    """Change the key with what the libraries depend on; computing it builds nothing."""
    bench = Bench(tmp_path)

    def ask(*words: str, **more: str) -> str:
        environment = {**bench.environment(), **more}
        return python("-m", "torchdevice_cuda", *words, environment=environment).out.strip()

    key = ask("--cache-key")
    assert not bench.cache.exists() and key.startswith("cuda-") and key == ask("--cache-key")
    assert key != ask("--cache-key", TORCHDEVICE_NATIVE_CXXFLAGS="-DANOTHER")
    assert ask("--driver", "mps", "--cache-key").startswith("calls-")
    assert all(Path(line).is_file() for line in ask("--build").splitlines()) and ask("--cache-key") == key
