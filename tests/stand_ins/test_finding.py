"""When stand-ins are served, what is reported of them, and what a failed import suggests."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import CPU, MPS, VIRTUAL, child, python, run_forked

from torchdevice_cuda.settings import stand_ins
from torchdevice_cuda.settings.stand_ins import STAND_INS
from torchdevice_cuda.stand_ins.suggesting import suggest

SUGGESTION = (
    "torchdevice_cuda has a stand-in for flash_attn: --stand-ins flash_attn, or TORCHDEVICE_STAND_INS=flash_attn"
)
ON = ("-m", "torchdevice_cuda", "--driver", "cpu", "--stand-ins", "all")
OFF = ("-m", "torchdevice_cuda", "--driver", "cpu")


@child(CPU.with_settings(stand_ins=tuple(STAND_INS)))
def test_versions_are_visible() -> None:
    import importlib
    import importlib.metadata
    import importlib.util

    for name, row in STAND_INS.items():
        assert importlib.import_module(name).__version__ == row.version
        assert importlib.metadata.version(row.distribution) == importlib.metadata.version(name) == row.version
        assert importlib.metadata.packages_distributions()[name] == [row.distribution]
        assert importlib.metadata.metadata(row.distribution)["Name"] == row.distribution
        assert importlib.util.find_spec(name) is not None
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("flash-attn-9")


@child(CPU.with_settings(stand_ins=tuple(STAND_INS)), MPS.with_settings(stand_ins=tuple(STAND_INS), gpu="h200"))
def test_attention_on_other_drivers() -> None:
    import torch
    from flash_attn import flash_attn_func  # type: ignore[import-not-found]
    from xformers.ops import memory_efficient_attention  # type: ignore[import-not-found]

    x = torch.randn(1, 5, 2, 16, device="cuda").half()
    if torch.cuda.get_device_capability() >= (8, 0):
        assert torch.allclose(flash_attn_func(x, x, x), memory_efficient_attention(x, x, x))
    wanted = torch.nn.functional.scaled_dot_product_attention(*[x.cpu().double().transpose(1, 2)] * 3).transpose(1, 2)
    assert (memory_efficient_attention(x, x, x).cpu() - wanted).abs().max() < 1e-2


def test_packages_are_found_before_torch_is_imported() -> None:
    program = "import sys, flash_attn, xformers.ops; print('torchdevice' in flash_attn.__file__)"
    assert python(*ON, "-c", program).out.split() == ["True"]


def make_package(folder: Path, name: str, **files: str) -> dict[str, str]:
    """Write a package; return the environment in which it is found."""
    (folder / name).mkdir()
    for file, text in files.items():
        (folder / name / f"{file}.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


def test_an_installed_package_is_used(tmp_path: Path) -> None:
    (tmp_path / "flash_attn-2.0.dist-info").mkdir()
    (tmp_path / "flash_attn-2.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.0\n"
    )
    environment = make_package(tmp_path, "flash_attn", __init__="from .inner import kind", inner="kind = 'real'")
    program = "import flash_attn, importlib.metadata as m; print(flash_attn.kind, m.version('flash_attn'))"
    assert run_forked(*ON, "-c", program, environment=environment).out.split() == ["real", "2.0"]


@pytest.mark.parametrize(
    "failing", ["import flash_attn_2_cuda", "import ctypes; ctypes.CDLL('libcudart.so.999')"], ids=["module", "library"]
)
def test_a_package_that_does_not_load_is_replaced(tmp_path: Path, failing: str) -> None:
    environment = make_package(tmp_path, "flash_attn", __init__="from .inner import kind", inner=failing)
    program = (
        "import flash_attn, flash_attn.bert_padding as b, sys;"
        "print(flash_attn.__version__, hasattr(flash_attn, 'kind'), 'flash_attn.inner' in sys.modules, b.__name__)"
    )
    done = run_forked(*ON, "-c", program, environment=environment)
    assert done.out.split() == [STAND_INS["flash_attn"].version, "False", "False", "flash_attn.bert_padding"]
    assert "the installed flash_attn does not load" in done.err
    ended = run_forked(*OFF, "-c", program, environment=environment, check=False)
    assert ended.status == 1 and SUGGESTION in ended.err


def test_xformers_whose_library_does_not_load_is_replaced(tmp_path: Path) -> None:
    """It catches the error itself."""
    library = "_cpp_library_load_exception = OSError('no CUDA')"
    environment = make_package(tmp_path, "xformers", __init__="from . import _cpp_lib", _cpp_lib=library)
    program = "import xformers.ops; print(xformers.ops.memory_efficient_attention.__module__)"
    done = run_forked(*ON, "-c", program, environment=environment)
    assert done.out.split() == ["xformers.ops.fmha"] and "does not load (no CUDA)" in done.err


def test_a_failed_import_names_the_setting() -> None:
    done = run_forked(*OFF, "-c", "import flash_attn", check=False)
    assert done.status == 1
    lines = done.err.splitlines()
    assert "ModuleNotFoundError: No module named 'flash_attn'" in lines and SUGGESTION in lines
    assert SUGGESTION not in run_forked(*ON, "-c", "import flash_attn.absent", check=False).err
    assert "stand-in" not in run_forked(*OFF, "-c", "import absent", check=False).err


def test_an_error_about_a_package_names_the_setting() -> None:
    said = "FlashAttention2 cannot be used: the package flash_attn seems to be not installed."
    assert suggest(ImportError(said), ()) == SUGGESTION
    assert suggest(ImportError("the package for FlashAttention2 doesn't seem to be installed."), ()) == SUGGESTION
    assert suggest(ImportError(said), ("flash_attn",)) is None
    assert suggest(RuntimeError(said), ()) is None and suggest(ImportError("flash_attn_3"), ()) is None


def test_nothing_is_imported_or_installed_by_default() -> None:
    program = (
        "import torch, sys;"
        "print([m for m in sys.modules if m.startswith('torchdevice_cuda.stand_ins')],"
        "[f for f in sys.meta_path if type(f).__module__.startswith('torchdevice_cuda.stand_ins')])"
    )
    assert run_forked(*OFF, "-c", program).out.strip() == "[] []"


@child(VIRTUAL.with_settings(stand_ins=("xformers",)), alone=True)
def test_deactivation_removes_the_finder() -> None:
    import importlib.util
    import sys

    import torchdevice_cuda

    assert importlib.util.find_spec("xformers") is not None
    assert importlib.util.find_spec("flash_attn") is None
    torchdevice_cuda.deactivate()
    assert importlib.util.find_spec("xformers") is None
    assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("torchdevice_cuda.stand_ins")]


def test_lists_of_packages_are_read() -> None:
    assert stand_ins.read("all") == tuple(STAND_INS) and stand_ins.read("none") == ()
    assert stand_ins.read("xformers, flash_attn") == ("flash_attn", "xformers")
    assert stand_ins.write(()) == "none" and stand_ins.read(stand_ins.write(("xformers",))) == ("xformers",)
    for wrong in ("", "apex", "all,xformers", "none,xformers"):
        with pytest.raises(ValueError):
            stand_ins.read(wrong)
