"""Names of an old torch: none that we stand on."""
# ruff: noqa: N999 (the name is torch's)
