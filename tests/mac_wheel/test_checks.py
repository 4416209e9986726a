"""Every check passes on what is right, and names what is planted."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import python
from harness.processes import ROOT

from . import planting

pytest.importorskip("lief", reason='needs ".[mac]"')
TOOL = ROOT / "tools" / "mac_wheel"
sys.path.append(str(TOOL))
import checks  # noqa: E402
import compiling  # noqa: E402
import texts  # noqa: E402
import wheels  # noqa: E402
from ours import Use  # noqa: E402
from torch_facts import TorchFacts  # noqa: E402

from torchdevice_cuda.native import toolchain  # noqa: E402

STUB = "def _mps_two(a, b): ...\ndef _mps_none(): ...\n"
EVENT = "class Event:\n    def __init__(self, enable_timing=False): ...\n    def record(self): ...\n"
TABLE = [re.compile(r"\w_mps not (implemented|ready) for "), re.compile(r"Trying to convert \w+ to MPS")]
SAID = {
    "add_mps not implemented for complex": ["add"],
    "sub_mps not ready for complex": ["sub"],
    "Trying to convert ": ["convert"],
    " to MPS": ["convert"],
    "warning: slow, only one": ["add"],
    **{pin.what: ["pinned"] for pin in checks.PINS if pin.text},
}
FACTS = TorchFacts(
    name="torch 2.13.0",
    release=(2, 13),
    texts=frozenset({"_mps_two", "_mps_none", *SAID}),
    of_mps=SAID,
    registered={"MPS": {"add", "by_hand"}, "SparseMPS": {"add"}},
    in_our_table={"MPS": {"add"}, "SparseMPS": {"add"}},
    symbols=frozenset(pin.what for pin in checks.PINS if not pin.text and pin.since <= (2, 13) <= pin.until),
    arguments={"_mps_none": 0, "_mps_two": None},
    python={
        "torch/_C/__init__.pyi": STUB,
        "torch/mps/event.py": EVENT,
        "torch/mps/__init__.py": "from .event import Event\ndef seed(): ...\n",
    },
    macos=(14, 0),
)
KNOWN = {"warning: slow, only one": "a warning"}


def has(**changed: Any) -> TorchFacts:
    return dataclasses.replace(FACTS, **changed)


def torch_c(*uses: Use) -> Callable[[TorchFacts], checks.Result]:
    return lambda facts: checks.torch_c(facts, uses, {"torch._C._mps_new"})


def torch_mps(*uses: Use) -> Callable[[TorchFacts], checks.Result]:
    return lambda facts: checks.torch_mps(facts, uses, {"torch.mps.device"})


def operators(facts: TorchFacts) -> checks.Result:
    return checks.operators(facts, {"MPS by_hand": "goes to the CPU"})[0]


def said(facts: TorchFacts) -> checks.Result:
    return checks.refusals_said([facts], TABLE, {})


def known(facts: TorchFacts) -> checks.Result:
    return checks.refusals_known(facts, TABLE, KNOWN)


def double(facts: TorchFacts) -> checks.Result:
    return checks.words_of_the_double(facts, [Use("_mps not implemented for complex", "refusals.h")], {})


def without(text: str) -> TorchFacts:
    return has(of_mps={other: SAID[other] for other in SAID if other != text}, texts=FACTS.texts - {text})


RIGHT = {
    "torch_c": torch_c(Use("_mps_two", "a.py:1", 2), Use("_mps_none", "a.py:2", 0), Use("_mps_new", "a.py:3")),
    "torch_mps": torch_mps(
        Use("torch.mps.Event", "a.py:1", 0, ("enable_timing",)),
        Use("torch.mps.Event.record", "a.py:2", 0),
        Use("torch.mps.seed", "a.py:3"),
        Use("torch.mps.device", "a.py:4"),
    ),
    "operators": operators,
    "said": said,
    "known": known,
    "double": double,
    "pins": checks.pins,
}
#: A check, what it is given, and what it says then.
PLANTS: dict[str, tuple[Callable[[TorchFacts], checks.Result], TorchFacts, str]] = {
    "a name of torch._C's is gone": (torch_c(Use("_mps_gone", "a.py:1")), FACTS, "_mps_gone is not there"),
    "it takes no argument": (torch_c(Use("_mps_none", "a.py:1", 1)), FACTS, "takes 0 arguments"),
    "its stub has two": (torch_c(Use("_mps_two", "a.py:1", 1)), FACTS, "takes 2 arguments"),
    "a name of torch.mps's is gone": (torch_mps(Use("torch.mps.Event.wait", "a.py:1")), FACTS, "is not there"),
    "a keyword is gone": (torch_mps(Use("torch.mps.Event", "a.py:1", 0, ("blocking",))), FACTS, "not take blocking"),
    "a kernel is new": (operators, has(registered={"MPS": {"add", "mul"}}), "mul has a kernel and none"),
    "a kernel is gone": (operators, has(registered={"MPS": set()}), "add has a kernel in our table only"),
    "a refusal is gone": (said, without("Trying to convert "), "no release says Trying to convert"),
    "one choice is gone": (said, without("sub_mps not ready for complex"), "no release says ready of "),
    "its pieces are others'": (said, has(of_mps={**SAID, " to MPS": ["other"]}), "Trying to convert"),
    "a refusal is new": (known, has(of_mps={**SAID, "mul: MPS supports no complex": ["mul"]}), "mul: MPS supports"),
    "a word of the double's": (double, has(texts=frozenset()), "_mps not implemented"),
    "another macOS is needed": (
        lambda facts: checks.macos(facts, (14, 0)),
        has(macos=(15, 0)),
        r"needs macOS 15\.0, and our table has 14\.0",
    ),
    "a symbol is gone": (checks.pins, has(symbols=frozenset()), "has no longer '__ZN2at3mps8MPSEvent14waitForCpuSync"),
    "a symbol is back": (checks.pins, has(release=(2, 15)), "has now '__ZN2at3mps8MPSEvent14waitForCpuSync"),
    "a text is gone": (checks.pins, without("Invalid Event ID: "), "Invalid Event ID"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_correct_wheels_pass(name: str) -> None:
    result = RIGHT[name](FACTS)
    assert (result.wrong, result.verdict) == ([], "ok")


@pytest.mark.parametrize("name", PLANTS)
def test_planted_faults_are_named(name: str) -> None:
    check, facts, words = PLANTS[name]
    result = check(facts)
    assert result.verdict == "FAILED"
    assert re.search(words, "\n".join(result.wrong)), result


def test_messages_of_releases_in_between_are_not_missing() -> None:
    facts = without("sub_mps not ready for complex")
    between = {"ready of " + texts.plain(TABLE[0].pattern): "2.8"}
    assert checks.refusals_said([facts], TABLE, between).wrong == []
    other = {"ready of another pattern": "2.8"}
    assert len(checks.refusals_said([facts], TABLE, other).wrong) == 1


def test_a_message_about_any_device_may_be_in_pieces() -> None:
    pattern = "Could not run '[^']+' with arguments from the '\\w*MPS' backend"
    words = {"Could not run '", "' with arguments", " from the '", "' backend. "}
    assert texts.unsaid(pattern, [({}, words)]) == []
    assert texts.unsaid(pattern, [({}, words - {" from the '"})]) == [pattern]
    assert texts.unsaid("unsupported on MPS", [({}, {"is unsupported", " on MPS"})]) == ["unsupported on MPS"]


def test_a_check_of_nothing_fails() -> None:
    assert torch_c()(FACTS).verdict == "FAILED"


def wheel(folder: Path, name: str, files: dict[str, str | bytes]) -> wheels.Wheel:
    path = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():
            archive.writestr(member, content)
    return wheels.Wheel(path)


def test_python_files(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    for name, content in {"same": "1", "version": "linux", "changed": "1"}.items():
        (tmp_path / "torch" / f"{name}.py").write_text(content)
    files = {"torch/same.py": "1", "torch/version.py": "macos", "torch/changed.py": "2", "torch/new.py": "1"}
    result = checks.python_files(wheel(tmp_path, "torch-2.13.0", files), tmp_path)
    assert result.wrong == ["torch/changed.py differs", "torch/new.py is not here"]


def test_mlx_and_metal(tmp_path: Path) -> None:
    mlx = {"mlx/core/__init__.pyi": "def add(a, b, /, *, stream=None): ...", "mlx/core/fft.pyi": "def rfft(a): ..."}
    uses = [Use("add", "", None, ("stream",)), Use("add", "", None, ("out",)), Use("fft.rfft", ""), Use("fft.gone", "")]
    result = checks.mlx(wheel(tmp_path, "mlx-1", mlx), uses)
    assert result.wrong == ["mlx.core.add does not take out ()", "mlx.core.fft.gone is not there ()"]
    metal = wheel(tmp_path, "metal-1", {"Metal/_metadata.py": 'r(b"NSObject", b"registryID", {"MTLMake": 1})'})
    result = checks.metal(metal, [Use("MTLMake", ""), Use("MTLGone", "")], [Use("registryID", ""), Use("gone", "")])
    assert result.wrong == ["MTLGone is not known ()", "gone is not known ()"]


def test_the_newest_wheel_that_is_allowed(tmp_path: Path) -> None:
    for version in ("2.9.1", "2.10.0", "2.6.0"):
        wheel(tmp_path, f"torch-{version}", {})
    names = {wanted: str(wheels.find(wanted, tmp_path)) for wanted in ("torch", "torch==2.9.1", "mlx")}
    assert names == {"torch": "torch 2.10.0", "torch==2.9.1": "torch 2.9.1", "mlx": "None"}


def test_the_list_of_reviewed_texts(tmp_path: Path) -> None:
    sections = texts.reviewed(TOOL / "reviewed.txt")
    assert sections.keys() == {checks.REFUSALS, checks.BETWEEN, checks.DOUBLE, checks.OPERATORS}
    (tmp_path / "list.txt").write_text("== refusals\n a text\n")
    with pytest.raises(ValueError, match="a text without a reason"):
        texts.reviewed(tmp_path / "list.txt")


def test_without_an_index_it_says_so_and_ends_well(tmp_path: Path) -> None:
    environment = {"TORCHDEVICE_CACHE_DIR": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = python(TOOL, environment=environment, timeout=240)
    assert done.out.startswith("mac_wheel: nothing was checked, the wheels for macOS cannot be had: torch==2")
    assert done.out.count("\n") == 1


@pytest.mark.slow
def test_this_tree(tmp_path: Path) -> None:
    kept = {"TORCHDEVICE_CACHE_DIR": os.environ.get("TORCHDEVICE_CACHE_DIR", "")}
    done = python(TOOL, "--json", tmp_path / "out.json", environment=kept, timeout=900, check=False)
    if done.out.startswith("mac_wheel: nothing was checked"):
        pytest.skip(done.out.strip())
    assert done.status == 0, done.out
    assert {result["verdict"] for result in json.loads((tmp_path / "out.json").read_text())} == {"ok"}


def test_symbols_that_nobody_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_of_the_system", lambda: {"_malloc"})
    planted = planting.library(tmp_path / "lib.dylib", {"__ZN2at3addEv": "a text"}, {}, "__ZN2at3mulEv").read_bytes()
    torch = wheel(tmp_path, "torch-2.13.0", {f"torch/lib/{name}.dylib": planted for name in compiling.LIBRARIES})
    needed = {"_malloc", "__ZN2at3addEv", "__ZN2at3mulEv", "_PyErr_Occurred", "__ZNSt3__14coutE", "__ZTVSt9exception"}
    assert compiling.lacking(needed | {"__ZN2at4goneEv", "_PyErr_Gone"}, torch, []) == {"__ZN2at4goneEv", "_PyErr_Gone"}


def test_linker_flags_for_a_mac() -> None:
    flags = toolchain.link_flags("library.so", with_torch=False, system="Darwin")
    assert "-Wl,-install_name,@rpath/library.so" in flags
    assert not [flag for flag in flags if "soname" in flag or "torch" in flag]
