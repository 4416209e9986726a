"""The probes, a file for each area."""
