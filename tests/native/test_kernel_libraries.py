"""Libraries of kernels in the cache: whole ones are loaded, all others are built again."""

from __future__ import annotations

import _ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from torchdevice_cuda.native import kernel_libraries

AREA, KEY = "triton", "0123.so"
GOOD = Path(_ctypes.__file__).read_bytes()


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the library in a cache."""
    tmp_path.chmod(0o755)
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", str(tmp_path / "cache"))
    kernel_libraries.explain.cache_clear()
    return tmp_path / "cache" / AREA / KEY


def count_builds(*made: bytes) -> tuple[Callable[[], bytes], list[bytes]]:
    left = list(made)
    return lambda: left.pop(0), left


def test_a_library_is_built_once(cached: Path) -> None:
    build, left = count_builds(GOOD)
    for _ in range(2):
        kernel_libraries.provide_loaded(AREA, KEY, build)
    assert not left and cached.stat().st_size > len(GOOD)


def test_a_damaged_library_is_built_again(cached: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build, left = count_builds(GOOD, GOOD)
    kernel_libraries.provide_loaded(AREA, KEY, build)
    cached.write_bytes(cached.read_bytes()[:-1])
    kernel_libraries.provide_loaded(AREA, KEY, build)
    assert not left and f"{cached} is damaged" in capfd.readouterr().err


def test_a_cached_library_that_does_not_load_is_built_again(cached: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build, left = count_builds(b"no library", GOOD)
    kernel_libraries.provide(AREA, KEY, build)
    kernel_libraries.provide_loaded(AREA, KEY, build)
    assert not left and "it does not load" in capfd.readouterr().err


def test_a_new_library_that_does_not_load_raises(cached: Path) -> None:
    build, _ = count_builds(b"no library")
    with pytest.raises(OSError):
        kernel_libraries.provide_loaded(AREA, KEY, build)
