"""The recipes for CI: the shell commands of each file, in fresh environments, from wheels of this repository.

No network: torch is there already, and what pip is told of an index comes to nothing. ``apt-get`` is left out, and what
Docker copies from one stage to the next lies in a folder of the test's.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from harness import Finished
from harness.processes import ROOT

from torchdevice_cuda.native import build as native
from torchdevice_cuda.native import places

from .environments import Environment, build, tree

pytestmark = [pytest.mark.slow, pytest.mark.native]
RECIPES = ROOT / "examples" / "ci"
PAGE = ROOT / "docs" / "ci.md"
TESTS = ROOT / "examples" / "test_memory_budget.py"
ALL_RAN = re.compile(r"\b3 passed\b(?!.*skipped)")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    source = tree(folder / "tree")
    for project in (source, source / "shim"):
        build(project, "wheel", folder / "dist")
    native.libraries("cuda")  # which the recipes then find
    return folder / "dist"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Somebody's, with tests for a GPU."""
    made = tmp_path / "project"
    made.mkdir()
    shutil.copy(TESTS, made)
    return made


class Runner:
    """Runs shell commands as CI does: one after the other, until one fails."""

    def __init__(self, folder: Path, wheels: Path, project: Path) -> None:
        self._environment, self._project = Environment(folder), project
        self._pip = {"PIP_NO_INDEX": "1", "PIP_EXTRA_INDEX_URL": ""}
        # Where recipes look for what a release consists of.
        shutil.copytree(wheels, project / "wheels", dirs_exist_ok=True)

    def run(self, script: str, variables: Mapping[str, str]) -> Finished:
        words = ["bash", "-e", "-o", "pipefail", "-c", f"cd {shlex.quote(str(self._project))}\n{script}"]
        return self._environment.command(words, {**self._pip, **variables}, timeout=600)


def recipe(name: str) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((RECIPES / name).read_text())


def test_github(wheels: Path, project: Path, tmp_path: Path) -> None:
    (job,) = recipe("github-actions.yml")["jobs"].values()
    runner = Runner(tmp_path / "environment", wheels, project)
    outputs = tmp_path / "outputs"
    variables = {**job["env"], "GITHUB_OUTPUT": str(outputs)}
    done = [runner.run(step["run"], variables) for step in job["steps"] if "run" in step]
    assert len(done) == 4 and ALL_RAN.search(done[-1].out), done[-1]
    assert outputs.read_text() == f"key={places.find_cache_key('cuda')}\n"
    (cache,) = (step["with"] for step in job["steps"] if "cache" in step.get("uses", ""))
    (asking,) = (step for step in job["steps"] if "id" in step)
    assert f"${{{{ steps.{asking['id']}.outputs.key }}}}" in cache["key"]


def test_gitlab(wheels: Path, project: Path, tmp_path: Path) -> None:
    job = recipe("gitlab-ci.yml")["gpu-tests"]
    variables = {name: value.replace("$CI_PROJECT_DIR", str(project)) for name, value in job["variables"].items()}
    library = native.library("cuda")
    (cache,) = job["cache"]["paths"]
    project.chmod(0o777)  # as runners leave it
    variables["CI_BUILDS_DIR"] = str(project)
    (project / cache).mkdir(mode=0o755)
    shutil.copytree(library.parent, project / cache / library.parent.name)  # the cache as the last job left it
    runner = Runner(tmp_path / "environment", wheels, project)
    done = runner.run("\n".join([*job["before_script"], *job["script"]]), variables)
    assert ALL_RAN.search(done.out) and f"{project}/.torchdevice/" in done.out, done
    assert (project / job["artifacts"]["reports"]["junit"]).is_file()


def test_docker(wheels: Path, project: Path, tmp_path: Path) -> None:
    """Both stages; the second has no compiler, nor a cache."""
    text = (RECIPES / "Dockerfile").read_text().replace("/wheels", str(tmp_path / "wheels"))
    text = text.replace("/ours", str(project / "wheels"))
    stages = re.split(r"^FROM .*$", text, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    variables: dict[str, str] = {"TORCH": "torch"}  # the one that the tests run with
    done = None
    for number, stage in enumerate(stages):
        runner = Runner(tmp_path / f"stage{number}", wheels, project)
        if number:
            tools = tmp_path / "tools"
            tools.mkdir()
            for tool in ("bash", "sh"):
                (tools / tool).symlink_to(shutil.which(tool) or "")
            variables.update(PATH=str(tools), CXX="", TORCHDEVICE_CACHE_DIR=str(tmp_path / "cache"))
        for line in stage.splitlines():
            instruction, _, words = line.partition(" ")
            if instruction == "ENV":
                variables.update(pair.split("=", 1) for pair in shlex.split(words))
            elif instruction == "RUN" and not words.startswith("apt-get"):
                done = runner.run(words, variables)
            elif instruction == "CMD":
                done = runner.run(shlex.join(json.loads(words)), variables)
    assert done is not None and ALL_RAN.search(done.out), done


def test_devcontainer(wheels: Path, project: Path, tmp_path: Path) -> None:
    made = json.loads((RECIPES / "devcontainer.json").read_text())
    runner = Runner(tmp_path / "environment", wheels, project)
    for step in ("onCreateCommand", "postCreateCommand"):
        runner.run(made[step], made["containerEnv"])
    done = runner.run("python -m pytest", made["containerEnv"])
    assert ALL_RAN.search(done.out), done


def test_pytest(wheels: Path, project: Path, tmp_path: Path) -> None:
    """Install no shim: the file's options alone give the tests a GPU."""
    shutil.copy(RECIPES / "pytest.ini", project)
    runner = Runner(tmp_path / "environment", wheels, project)
    done = runner.run("pip install --find-links wheels torchdevice-cuda pytest && python -m pytest", {})
    assert ALL_RAN.search(done.out), done


def test_the_steps_of_the_page(wheels: Path, project: Path, tmp_path: Path) -> None:
    """Run the shell commands that the page lists for CI."""
    (steps,) = re.findall(r"(?:^    \S.*\n)+", PAGE.read_text(), flags=re.MULTILINE)
    runner = Runner(tmp_path / "environment", wheels, project)
    done = runner.run("pip install --find-links wheels pytest\n" + textwrap.dedent(steps), {})
    assert places.find_cache_key("cuda") in done.out and ALL_RAN.search(done.out), done


def test_jupyter(wheels: Path, project: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    for needed in ("ipykernel", "nbconvert"):
        pytest.importorskip(needed)
    cell = nbformat.v4.new_code_cell("import torch\nprint(torch.ones(3).cuda().sum(), torch.cuda.mem_get_info()[1])")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), project / "notebook.ipynb")
    Runner(tmp_path / "environment", wheels, project).run((RECIPES / "jupyter.sh").read_text(), {})
    (ran,) = nbformat.read(project / "done.ipynb", 4).cells
    assert ran.outputs[0]["text"] == f"tensor(3., device='cuda:0') {2 << 30}\n"
