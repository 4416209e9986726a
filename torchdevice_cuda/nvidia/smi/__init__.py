"""``nvidia-smi`` over the GPUs that the user's processes believe in, in the words that tools parse."""
