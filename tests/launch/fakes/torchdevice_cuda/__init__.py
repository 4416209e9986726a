"""What the shim may know of torchdevice_cuda, and no more."""
