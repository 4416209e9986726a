"""NVIDIA's tools for watching GPUs, as programs and people call them, over what running processes publish."""
