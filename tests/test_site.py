"""The documentation as a site: it builds without a warning, and a link that leads nowhere is one."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from harness import clean_environment, run
from harness.processes import ROOT

pytestmark = pytest.mark.slow
PARTS = ("docs", "tools/site.py", "mkdocs.yml", "CONTRIBUTING.md", "CHANGELOG.md", "shim/README.md", "examples/ci")
CODE = ("torchdevice_cuda/__init__.py", "torchdevice_cuda/native/README.md")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the sources of the site."""
    pytest.importorskip("mkdocstrings")
    for name in (*PARTS, *CODE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    return tmp_path


def test_it_builds(copy: Path) -> None:
    (copy / "docs" / "a-new-page.md").write_text("# A page that nobody has put into the navigation\n")
    done = run([sys.executable, "-m", "mkdocs", "build", "--strict"], environment=clean_environment(), folder=copy)
    assert done.status == 0, done
    start = (copy / "site" / "start" / "index.html").read_text()
    assert 'href="../native-wheels/"' in start and "A page that nobody has put" in start
    home = (copy / "site" / "index.html").read_text()
    assert 'href="drivers/"' in home and 'src="images/before-after.png"' in home and home.count("tabbed-block") == 4
    assert 'id="torchdevice_cuda.activate"' in (copy / "site" / "api" / "index.html").read_text()
    assert 'href="../examples/ci/Dockerfile.txt"' in (copy / "site" / "ci" / "index.html").read_text()
    assert (copy / "site/examples/ci/gitlab-ci.yml.txt").read_text() == (ROOT / "examples/ci/gitlab-ci.yml").read_text()
    assert 'href="../drivers/' in (copy / "site" / "settings" / "index.html").read_text()


def test_a_link_that_leads_nowhere_is_an_error(copy: Path) -> None:
    wrong = ("nowhere.md", "../torchdevice_cuda/activation.py", "testing.md#nothing")
    with open(copy / "docs" / "ci.md", "a") as file:
        file.write("".join(f"\n[x]({link})\n" for link in wrong))
    done = run([sys.executable, "-m", "mkdocs", "build", "--strict"], environment=clean_environment(), folder=copy)
    assert done.status == 1 and all(f"'{link}'" in done.err for link in wrong)
    assert "Aborted with 3 warnings" in done.out


def test_the_navigation_names_each_page_once() -> None:
    named = re.findall(r"^ +- (?:[^\n:]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} | {
        "contributing.md",
        "changelog.md",
        "native.md",
        "shim.md",
    }
    assert sorted(named) == sorted(pages)
