"""Hides NumPy from a Python process, as where it is not installed. Python runs this where the folder is on its path."""

from importlib.machinery import PathFinder

_find_spec = PathFinder.find_spec


def find_spec(fullname, path=None, target=None):  # type: ignore[no-untyped-def]
    """Find what there is besides NumPy."""
    return None if fullname == "numpy" else _find_spec(fullname, path, target)


PathFinder.find_spec = staticmethod(find_spec)  # type: ignore[assignment]
