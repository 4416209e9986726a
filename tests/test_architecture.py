"""Rules of the import graph that ``lint-imports`` cannot check."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import torchdevice_cuda
from torchdevice_cuda.settings import DRIVERS

PACKAGE = torchdevice_cuda.__name__


@pytest.fixture(scope="module")
def graph() -> Any:
    return pytest.importorskip("grimp").build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)


def test_no_file_imports_itself_through_others(graph: Any) -> None:
    """Imports in functions and for types count, and so do packages, which ``acyclic_siblings`` passes over."""
    back = [
        graph.find_shortest_chain(imported, importer)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    ]
    cycles = {" -> ".join(sorted(chain)) for chain in back if chain is not None}
    assert cycles == set()


def test_drivers_do_not_import_each_other(graph: Any) -> None:
    """Every driver of ``DRIVERS`` is covered without naming it: a contract of ``lint-imports`` would list them."""
    places = [module.removesuffix(".driver") for module in DRIVERS.values()]
    chains = [graph.find_shortest_chain(*pair, as_packages=True) for pair in itertools.permutations(places, 2)]
    assert [chain for chain in chains if chain is not None] == []
