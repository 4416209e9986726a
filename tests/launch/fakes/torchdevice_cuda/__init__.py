"""The only names of torchdevice_cuda that the shim may use."""
