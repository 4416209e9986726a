"""The import graph: what ``lint-imports`` cannot say of it."""

import pytest

import torchdevice_cuda

PACKAGE = torchdevice_cuda.__name__


def test_no_file_imports_itself_through_others() -> None:
    """Imports in functions and for types count, and so do packages, which ``acyclic_siblings`` passes over."""
    graph = pytest.importorskip("grimp").build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)
    back = [
        graph.find_shortest_chain(imported, importer)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    ]
    cycles = {" -> ".join(sorted(chain)) for chain in back if chain is not None}
    assert cycles == set()
