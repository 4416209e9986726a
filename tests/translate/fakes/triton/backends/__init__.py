"""What torch looks through: the makers of GPUs that this triton has code for."""

from .nvidia import driver as driver

backends = {"nvidia": driver.CudaDriver}
