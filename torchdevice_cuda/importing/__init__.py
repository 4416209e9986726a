"""Modules from files of our choice: a finder for those yet to be imported, a rewriting of those already loaded."""
