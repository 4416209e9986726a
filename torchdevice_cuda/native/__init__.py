"""The device in host memory: C++ sources, and `build`, which compiles them for the installed torch."""
