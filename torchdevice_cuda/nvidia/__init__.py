"""NVIDIA's tools that monitor GPUs, with their interfaces, over the data that running processes publish."""
