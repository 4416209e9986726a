"""The values of ``--check-streams``."""

OFF, WARN, ERROR = "off", "warn", "error"
