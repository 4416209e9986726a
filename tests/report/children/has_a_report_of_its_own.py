import os
import subprocess
import sys

import torch

torch.ones(1, device="cpu")
other = os.environ["TORCHDEVICE_REPORT"].replace("report.json", "other.json")
options = ["--driver", "cpu", "--report", other, "-c", "import torch; torch.ones(1, device='cpu')"]
subprocess.run([sys.executable, "-m", "torchdevice_cuda", *options], check=True)
os.unlink(other)
