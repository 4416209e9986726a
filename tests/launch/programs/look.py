"""Print whether an activation finds torch, and the modules that were loaded before it."""

import sys

before = sorted(name for name in sys.modules if name.startswith("torch"))
import torch  # noqa: E402

activation = sys.modules.get("torchdevice_cuda.activation")
print(before, torch.finders[0], activation and activation.calls)
