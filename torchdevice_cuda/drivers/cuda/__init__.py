"""The ``cuda`` driver: a real one."""
