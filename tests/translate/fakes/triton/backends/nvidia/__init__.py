"""NVIDIA's part."""
