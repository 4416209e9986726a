"""Each row of the contract has a case in a record, or is marked on docs/operators.md."""

from __future__ import annotations

import tempfile

import pytest
import torch
from harness import VIRTUAL, child
from recorded import bits_table, case_sets, noting, row_coverage

from torchdevice_cuda import contract

ROWS = contract.read_operators()


def test_every_row_is_recorded_or_marked() -> None:
    """After adding or changing a row, run ``python tools/record coverage --page``."""
    assert row_coverage.PAGE.read_text(encoding="utf-8") == row_coverage.format_page()


def test_a_new_row_is_missing_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"some_new": {"takes": ["floats"]}}
    monkeypatch.setattr(contract, "read_operators", lambda: {**ROWS, **row})
    page = row_coverage.format_page()
    assert "| `some_new` | takes |  | takes |\n" in page
    assert page != row_coverage.PAGE.read_text(encoding="utf-8")


def test_results_with_other_bits_have_a_measured_distance() -> None:
    counts = bits_table.count_equal()
    assert bits_table.read_distances().keys() == {key for key, (equal, cases) in counts.items() if equal < cases}


def test_every_fact_has_sets_that_show_it() -> None:
    assert row_coverage.SHOWN_BY.keys() == contract.KEYS
    assert set(row_coverage.SETS) <= set(case_sets.list_sets())


def test_facts_without_a_record_are_found() -> None:
    row = {"ties": True, "takes": ["floats"], "mps_refuses": []}
    assert row_coverage.find_unrecorded("some", row, {"some": ["ties"]}) == ["takes", "mps_refuses"]
    assert row_coverage.find_unrecorded("some", row, {"some": ["operators"]}) == ["ties", "mps_refuses"]


@child(VIRTUAL)
def test_operators_of_the_gpu_are_noted() -> None:
    """Note operators that raise, too, but none of the CPU."""
    host = torch.ones(3)
    with tempfile.NamedTemporaryFile("r") as notes, pytest.MonkeyPatch.context() as patch:
        patch.setenv(noting.NOTES, notes.name)
        with noting.note_operators():
            device = torch.ones(3, device="cuda")
            host.cumsum(0)
            with pytest.raises(NotImplementedError):
                device.bitwise_and(device)
        device.sum()
        assert notes.read().split() == ["aten::ones", "aten::bitwise_and.Tensor"]
