"""The ``mps`` driver: the Apple GPU."""
