"""The host-memory device: C++ sources, and `build` which compiles them for the torch that is installed."""
