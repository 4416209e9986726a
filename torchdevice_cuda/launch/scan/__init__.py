"""``--scan``: reads a project without running it, and says what becomes of each use of CUDA on a driver."""
