"""tools/mac_wheel: that it finds what is planted."""
