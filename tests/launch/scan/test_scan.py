"""The findings of ``--scan``, and whether they are true: the rules' samples are run on the drivers."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import CPU, VIRTUAL, ChildConfig, child, run_forked

from torchdevice_cuda import settings
from torchdevice_cuda.launch.scan import catalogue, command, finding, output, rules
from torchdevice_cuda.launch.scan.rules import DIFFERS, FALLBACK, UNSUPPORTED, WORKS

PROJECT = Path(__file__).with_name("project")
SAMPLES = {rule.identity: rule for rule in rules.RULES if rule.sample is not None}


def found(driver: str) -> dict[str, str]:
    """Return the findings in the project, with the worst verdict of each."""
    uses = finding.uses((PROJECT / "model.py").read_bytes(), driver)
    return {use.what: use.verdict.what for use in sorted(uses, key=lambda use: -rules.VERDICTS.index(use.verdict.what))}


def test_each_use_has_its_verdict() -> None:
    common = {
        "torch.cuda.is_available": WORKS,
        "torch.cuda.amp.autocast": WORKS,
        ".cuda": WORKS,
        '"cuda"': WORKS,
        "torch.cuda.power_draw": UNSUPPORTED,
        "torch.cuda.no_such_name": UNSUPPORTED,
        "apex": DIFFERS,
        "apex.amp.initialize": DIFFERS,
        '"nccl"': DIFFERS,
    }
    graphs = {"torch.cuda.graph", "torch.cuda.CUDAGraph"}
    virtual = {'"cuda:1"': DIFFERS, ".is_cuda": WORKS, ".double": WORKS, **dict.fromkeys(graphs, WORKS)}
    assert found("virtual") == {**common, **virtual}
    cpu = {'"cuda:1"': DIFFERS, ".is_cuda": DIFFERS, ".double": WORKS, **dict.fromkeys(graphs, DIFFERS)}
    assert found("cpu") == {**common, **cpu}
    mps = {'"cuda:1"': UNSUPPORTED, ".is_cuda": WORKS, ".double": DIFFERS, **dict.fromkeys(graphs, DIFFERS)}
    lacking = {"torch.heaviside": FALLBACK} if catalogue.leaves_the_apple_gpu("torch.heaviside") else {}
    assert found("mps") == {**common, **mps, **lacking}
    assert {what for name, what in found("cuda").items() if name != "torch.cuda.no_such_name"} == {WORKS}


def test_a_file_without_cuda_is_not_parsed() -> None:
    assert finding.uses(b"def broken(:", "virtual") == []
    with pytest.raises(SyntaxError):
        finding.uses(b"def broken(: 'cuda'", "virtual")


@child(CPU, VIRTUAL)
@pytest.mark.parametrize("identity", SAMPLES)
def test_findings_are_true(place: ChildConfig, identity: str) -> None:
    rule = SAMPLES[identity]
    assert rule.sample is not None
    what = rule.verdict(place.settings["driver"]).what
    try:
        exec(rule.sample, {"torch": torch})
    except (RuntimeError, NotImplementedError):
        assert what == UNSUPPORTED
    except AssertionError:
        assert what == DIFFERS
    else:
        assert what in (WORKS, DIFFERS)


@child(CPU)
def test_the_catalogue_is_torchs() -> None:
    """Read from files, it has what is there when torch is imported."""
    assert not [name for name in torch.cuda.__all__ if name not in catalogue.published()]


def test_formats_and_statuses(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project)
    shutil.copy(PROJECT / "broken.txt", project / "broken.py")
    (project / ".venv").mkdir()
    shutil.copy(PROJECT / "model.py", project / ".venv")
    done = run_forked("-m", "torchdevice_cuda", "--scan", project, "--driver", "cpu", "--format=json", check=False)
    document: dict[str, Any] = json.loads(done.out)
    assert done.status == 1
    assert [document["files"], document["driver"]] == [2, "cpu"]
    assert [Path(each["file"]).name for each in document["unread"]] == ["broken.py"]
    assert sum(document["counts"].values()) == len(document["uses"])
    chosen = settings.load({"driver": "cpu"}, {})
    text, status = command.run([str(project)], "lines", chosen)
    where = project / "model.py"
    assert status == 1
    line = 1 + where.read_text().splitlines().index("    with cuda.graph(t.cuda.CUDAGraph()):")
    assert f"{where}:{line}:10: differs: torch.cuda.graph: captured and replayed" in text
    assert "is_available" not in text
    assert f"{project / 'broken.py'}: not read: SyntaxError" in text
    page = command.run([str(project)], "html", chosen)[0]
    assert "with cuda.graph(t.cuda.CUDAGraph()):" in page and f"{where}:{line}</a>" in page
    assert "<section" in page and "http" not in page.replace("http-equiv", "")
    sarif = json.loads(command.run([str(project)], "sarif", chosen)[0])
    results = sarif["runs"][0]["results"]
    assert {each["level"] for each in results} == {"error", "warning"}
    known = {each["id"] for each in sarif["runs"][0]["tool"]["driver"]["rules"]}
    assert {each["ruleId"] for each in results} == known
    (tmp_path / "plain.py").write_text("x = 'cuda'\n")
    assert command.run([str(tmp_path / "plain.py")], "text", chosen)[1] == 0
    for words, said in (
        (["nowhere"], "no file or folder 'nowhere'"),
        ([str(project), "--format", "xml"], "--format='xml'"),
    ):
        failed = run_forked("-m", "torchdevice_cuda", "--scan", *words, check=False)
        assert failed.status == 2
        assert said in failed.err


def test_the_text_leads_with_what_cannot_work(tmp_path: Path) -> None:
    for number in range(40):
        shutil.copy(PROJECT / "model.py", tmp_path / f"model{number:02}.py")
    shutil.copy(PROJECT / "broken.txt", tmp_path / "zz.py")
    for name in ("a.cu", "b.cuh"):
        (tmp_path / name).write_text("#include <cute/tensor.hpp>\n")
    for driver in ("virtual", "mps", "cpu"):
        text, status = command.run([str(tmp_path)], "text", settings.load({"driver": driver}, {}))
        lines = text.splitlines()
        kinds = [line.partition(":")[0] for line in lines]
        assert status == 1 and len(lines) <= 10, text
        assert kinds[0] == "Cannot work" and kinds[-1] == f"Works on the {driver} driver"
        assert kinds == sorted(kinds, key=[*output.TITLES.values(), "Not read", kinds[-1]].index)
        assert f"{tmp_path}/model00.py:" in lines[0] and "40 files in all" in text
        assert "zz.py: SyntaxError" in lines[-2] and "; 2 sources of CUDA C++: build them here" in lines[-2]
        assert f"the other {40 * counted(driver, WORKS)} uses" in lines[-1].replace(",", ""), text


def test_kernels_are_named_in_every_format(tmp_path: Path) -> None:
    (tmp_path / "k.cu").touch()
    chosen = settings.load({"driver": "virtual"}, {})
    for form in ("text", "lines", "html"):
        assert f"1 source of CUDA C++ ({tmp_path}/k.cu): build it here" in command.run([str(tmp_path)], form, chosen)[0]
    assert json.loads(command.run([str(tmp_path)], "json", chosen)[0])["kernels"] == [f"{tmp_path}/k.cu"]


def test_a_project_without_cuda_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import torch\n")
    chosen = settings.load({"driver": "virtual"}, {})
    text, status = command.run([str(tmp_path)], "text", chosen)
    assert (text.startswith("No use of CUDA was found in 1 file ("), text.count("\n"), status) == (True, 1, 0)
    assert "No use of CUDA was found." in command.run([str(tmp_path)], "html", chosen)[0]


def test_triton_does_not_work_on_a_mac() -> None:
    source = b"import triton\n\n@triton.jit\ndef kernel(): pass\n"
    verdicts = {driver: {use.verdict.what for use in finding.uses(source, driver)} for driver in ("mps", "virtual")}
    assert verdicts == {"mps": {UNSUPPORTED}, "virtual": {DIFFERS}}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["accelerate", "timm", "transformers"])
def test_a_public_project_fits_ten_lines(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"no {name}")
    folder = spec.submodule_search_locations[0]
    done = run_forked("-m", "torchdevice_cuda", "--scan", folder, "--driver", "mps", check=False)
    lines = done.out.splitlines()
    assert len(lines) <= 10 and lines[-1].startswith("Works on the mps driver: the other "), done
    assert done.status == int(lines[0].startswith("Cannot work: ")), done


def counted(driver: str, verdict: str) -> int:
    """Return the number of findings in the project with a verdict."""
    return sum(use.verdict.what == verdict for use in finding.uses((PROJECT / "model.py").read_bytes(), driver))


def test_many_files_are_read_by_several_processes(tmp_path: Path) -> None:
    for number in range(command._MANY + 1):
        (tmp_path / f"m{number:04}.py").write_text(f"import torch\n{'#' * number}\ntorch.cuda.power_draw()\n")
    result = command.scan([str(tmp_path)], "virtual")
    assert [Path(file).name for file, _ in result.found] == sorted(path.name for path in tmp_path.iterdir())
