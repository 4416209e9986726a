import subprocess
import sys

import torch

torch.ones(1, device="cpu")
program = "import sys, time, torch; print(flush=True); time.sleep(3); torch.ones(1, device='cpu')"
with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as child:
    assert child.stdout is not None
    child.stdout.readline()
    child.wait = lambda timeout=None: 0  # type: ignore[method-assign]  (it is left to itself)
