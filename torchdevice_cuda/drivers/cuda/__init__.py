"""The ``cuda`` driver: a real CUDA GPU."""
