import json
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

x = torch.randn(64, 64, device="cuda")
both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
with profile(activities=both, record_shapes=True, profile_memory=True) as run, record_function("mine"):
    (x @ x).relu().sum().item()
assert "aten::mm" in run.key_averages().table(sort_by="cuda_time_total")
with tempfile.TemporaryDirectory() as folder:
    trace = Path(folder) / "trace.json"
    run.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
assert "mine" in {event.get("name") for event in events}
print("done")
