"""``--scan``: reads a project without running it, and reports the effect of each use of CUDA on a driver."""
