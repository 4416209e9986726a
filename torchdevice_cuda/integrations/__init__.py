"""What other people's tools see: monitors of GPUs, test runners."""
