import subprocess
import sys

import torch

torch.ones(1, device="cpu")
subprocess.run([sys.executable, "-c", "import torch; torch.ones(1, device='cpu')"], check=True)
