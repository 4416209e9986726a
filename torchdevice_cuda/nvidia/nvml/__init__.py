"""NVIDIA's management library and ``nvidia-smi`` over the GPUs that the user's processes see."""
