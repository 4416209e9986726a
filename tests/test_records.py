"""Every record in tests/data says what made it, and holds what its set of cases would record."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import VIRTUAL, child, python, run_forked
from harness.places import must_be_ready
from recorded import ROOT, case_sets, store

from torchdevice_cuda._compat import read_toml

OTHERS = read_toml(store.DATA / "others.toml")
FILES = sorted(path.name for path in store.DATA.iterdir() if path.name not in (*OTHERS, "others.toml"))
SETS = case_sets.list_sets()


def _disagree(name: str) -> tuple[set[str], set[str]]:
    """List the cases that a record lacks, and those that only the record has."""
    cases = case_sets.load_set(name)
    found, recorded = set(cases.cases), set(store.read_answers(cases.record))
    return found - recorded, recorded - found


def test_each_record_has_one_set() -> None:
    assert sorted(case_sets.load_set(name).record.name for name in SETS) == FILES


@pytest.mark.parametrize("file", FILES)
def test_a_record_states_its_command_torch_and_gpu(file: str) -> None:
    about = store.read_file(store.DATA / file)["about"]
    assert [key for key in store.ABOUT if not about.get(key)] == []
    assert about["gpu"] == store.UNKNOWN or about["gpu"].startswith("NVIDIA ")
    assert store.is_real(about)
    *command, name = about["command"].split()
    assert command == ["python", "tools/record", "record"]
    assert case_sets.load_set(name).record.name == file


def test_other_files_say_why_they_are_none() -> None:
    for file, row in OTHERS.items():
        assert (store.DATA / file).exists(), file
        assert row["why"] and row["command"]
        words = row["command"].split()
        assert words[0] != "python" or (ROOT / words[1]).exists(), words


#: Whether listing its cases uses the device, for each set that has some.
LISTED = {
    cases.name: cases.say("LISTED_ON_DEVICE", False)
    for cases in map(case_sets.load_set, SETS)
    if cases.say("list_cases") is not None
}


@pytest.mark.parametrize("name", [name for name in LISTED if not LISTED[name]])
def test_the_cases_are_those_of_the_record(name: str) -> None:
    cases = case_sets.load_set(name)
    lacking, gone = _disagree(name)
    if cases.say("BY_RELEASE"):
        assert len(gone) < 0.05 * len(store.read_answers(cases.record))
    else:
        assert (lacking, gone) == (set(), set())


@child(VIRTUAL)
def test_the_cases_that_use_the_device_are_those_of_the_record() -> None:
    names = [name for name in LISTED if LISTED[name]]
    assert {name: _disagree(name) for name in names} == dict.fromkeys(names, (set(), set()))


def test_a_header_can_be_added_to_a_checkpoint(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "some.pt"
    torch.save({"x": torch.ones(3)}, path)
    store.add_header(path, {"gpu": "some"})
    assert store.read_file(path)["about"] == {"gpu": "some"}
    assert torch.load(path, mmap=True)["x"].tolist() == [1.0] * 3


@pytest.mark.native
def test_a_set_is_recorded_and_compared(tmp_path: Path) -> None:
    """On the virtual GPU, which its header says, so that it is taken for no GPU's."""
    must_be_ready(VIRTUAL)
    file, tool = tmp_path / "some.json", ROOT / "tools" / "record"
    recording = ("-m", "torchdevice_cuda", "--driver", "virtual", "--gpu", "h200", tool, "record", "properties")
    assert "this is no GPU, but NVIDIA H200 (virtual driver)" in python(*recording, check=False).err
    run_forked(*recording, "--to", file)
    record = store.read_file(file)
    assert set(record["about"]) == set(store.ABOUT) and not store.is_real(record["about"])
    comparing = (tool, "compare", "properties", "--driver", "cuda", "--answers", file)
    assert "1 of 1 (100.0%) facts as on NVIDIA H200" in run_forked(*comparing).out
    record["answers"]["properties"]["name"] = "another"
    store.write_file(file, record["about"], record["answers"])
    assert run_forked(*comparing, check=False).status == 1
