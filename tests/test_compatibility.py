"""The page of libraries and programs: what the tool reads from pytest, and where it writes."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest
from harness.tools import tool


@pytest.fixture(scope="module")
def compatibility() -> ModuleType:
    return tool("compatibility.py")


def test_a_program_that_fails_anywhere_is_not_said_to_work(compatibility: ModuleType) -> None:
    outcomes = compatibility.Outcomes()

    def phase(place: str, when: str, outcome: str) -> None:
        name = f"tests/test_clients.py::test_client[{place}-peft_lora]"
        outcomes.pytest_runtest_logreport(
            SimpleNamespace(nodeid=name, when=when, outcome=outcome, passed=outcome == "passed")
        )

    phase("cpu", "setup", "passed")
    phase("cpu", "call", "passed")
    phase("mps accelerate", "setup", "skipped")
    phase("virtual", "setup", "passed")
    phase("virtual", "call", "passed")
    phase("virtual", "teardown", "failed")
    text = compatibility.table(outcomes.found, {"peft_lora": ("pytest", "no_such_library")})
    assert "| program | libraries | cpu | mps accelerate | virtual |" in text
    assert (
        f"| `peft_lora` | pytest {pytest.__version__}, no_such_library not installed | works | not run | fails |"
        in text
    )


def test_the_page_has_one_table_for_each_release(compatibility: ModuleType) -> None:
    page = "# Libraries\n\nWords.\n"
    first = compatibility.written(page, "2.13.0", "| a |\n")
    both = compatibility.written(first, "2.15.0", "| b |\n")
    again = compatibility.written(both, "2.13.0", "| c |\n")
    assert first.startswith(page) and "| a |" in both and "| b |" in both
    assert "| a |" not in again and again.index("| c |") < again.index("| b |")
