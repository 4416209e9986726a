"""Checks of streams: what the detector reports, and where it must be silent."""
