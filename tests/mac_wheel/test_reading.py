"""Reading of libraries and of our sources."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from harness.processes import ROOT

from . import planting

pytest.importorskip("lief", reason='needs ".[mac]"')
sys.path.append(str(ROOT / "tools" / "mac_wheel"))
import macho  # noqa: E402
import ours  # noqa: E402

TEXTS = {"_add_mps": "MPS does not support that", "_add_cpu": "the CPU does not, either"}


@pytest.fixture
def planted(tmp_path: Path) -> macho.Library:
    methods = {"_mps_nothing": 0x04, "_mps_one": 0x08, "_mps_many": 0x01}
    return macho.Library(planting.library(tmp_path / "lib.dylib", TEXTS, methods, "_elsewhere"))


def test_texts_of_functions(planted: macho.Library) -> None:
    assert planted.texts_of("mps") == {TEXTS["_add_mps"]: ["_add_mps"]}
    assert planted.texts_of("_add") == {text: [name] for name, text in TEXTS.items()}
    assert set(TEXTS.values()) < planted.texts


def test_symbols(planted: macho.Library) -> None:
    assert planted.exported == set(TEXTS)
    assert planted.undefined == {"_elsewhere"}


def test_methods_of_python(planted: macho.Library) -> None:
    found = planted.arguments_of(["_mps_nothing", "_mps_one", "_mps_many", "_mps_none"])
    assert found == {"_mps_nothing": 0, "_mps_one": 1, "_mps_many": None}


def test_a_file_that_is_no_library_is_an_error(tmp_path: Path) -> None:
    other = tmp_path / "other.dylib"
    other.write_bytes(b"something else")
    with pytest.raises(ValueError, match="no library for macOS"):
        macho.Library(other)


SOURCE = """
import torch
def f(event, owner, device, mx, names):
    '''Ask torch._C._mps_inDocs.'''
    torch._C._mps_called(1, 2)
    kept = torch._C._mps_kept
    named("torch._C._mps_named")
    getattr(torch_c, "_mps_got", None)
    owner.kept = torch.mps.Event(enable_timing=True)
    event.kept.elapsed_time(event.kept)
    _ask(device, "maxLength")
    importlib.import_module("Metal").MTLMakeDevice()
    return mx.fft.rfft(names, axis=0)
"""


def test_names_in_our_sources(tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(SOURCE)
    found = {use.name: use.arguments for use in ours.torch_c(tmp_path)}
    assert found == {"_mps_called": 2, "_mps_kept": None, "_mps_named": None, "_mps_got": None}
    events = {use.name: use.keywords for use in ours.torch_mps(tmp_path, ["torch.mps.seed", "torch.seed"])}
    assert events == {"torch.mps.seed": (), "torch.mps.Event": ("enable_timing",), "torch.mps.Event.elapsed_time": ()}
    functions, selectors = ours.metal(tmp_path)
    assert ([use.name for use in functions], [use.name for use in selectors]) == (["MTLMakeDevice"], ["maxLength"])
    assert ("fft.rfft", ("axis",)) in [(use.name, use.keywords) for use in ours.mlx(tmp_path)]


def test_names_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "table.py"
    path.write_text(
        textwrap.dedent("""
        def by_name(name):
            def compute(mx, x):
                return getattr(mx.linalg, name)(x, stream=mx.cpu)

            return compute
        """)
    )
    space: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    (use,) = ours.mlx_by_table([space["by_name"]("eigvals")], tmp_path)  # type: ignore[operator]
    assert (use.name, use.keywords) == ("linalg.eigvals", ("stream",))


def test_words_of_the_double(tmp_path: Path) -> None:
    (tmp_path / "hooks.cpp").write_text(
        textwrap.dedent("""
        #ifdef HOSTDEVICE_CUDA
        TORCH_CHECK(a, "CUDA says so");
        #else
        TORCH_CHECK(a, "MPS \\"says\\" "
                       "so", one_word("x"));  // "a comment says"
        #endif
        TORCH_CHECK(a, "both say so");
        """)
    )
    assert [use.name for use in ours.words_of_the_double(tmp_path)] == ['MPS "says" so', "both say so"]


def test_words_of_rows() -> None:
    """Find the messages of an operator with two limits, too."""
    found = [use.name for use in ours.words_of_rows()]
    assert len(found) > 5 and found.count("index_reduce for MPS does not support torch.long dtype") == 1
