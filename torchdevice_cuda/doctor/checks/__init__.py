"""The checks: programs that test the device, which torchdevice_cuda treats like a user's programs."""
