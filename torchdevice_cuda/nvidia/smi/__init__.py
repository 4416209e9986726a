"""``nvidia-smi`` over the GPUs that the user's processes see, in the format that tools parse."""
