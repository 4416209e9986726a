"""Whether torch is found by an activation, and what was loaded before it."""

import sys

before = sorted(name for name in sys.modules if name.startswith("torch"))
import torch  # noqa: E402

activation = sys.modules.get("torchdevice_cuda.activation")
print(before, torch.finders[0], activation and activation.calls)
