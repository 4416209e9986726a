import io

import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.BatchNorm1d(16), nn.Linear(16, 4)).cuda().eval()
x = torch.randn(5, 8, device="cuda")
exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
file = io.BytesIO()
torch.export.save(exported, file)
file.seek(0)
for program in (exported, torch.export.load(file), exported.run_decompositions()):
    for inputs in (x, torch.randn(9, 8, device="cuda")):
        made = program.module()(inputs)
        assert made.device == inputs.device
        torch.testing.assert_close(made, model(inputs))
print("done")
