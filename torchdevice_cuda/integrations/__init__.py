"""torchdevice_cuda inside other people's tools: test runners."""
