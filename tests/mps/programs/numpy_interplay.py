"""Metrics and plots: tensors become arrays and arrays tensors, some of them float64."""

from __future__ import annotations

import numpy as np
import torch
from _everyday import data, settled
from torch import nn


def main() -> dict[str, object]:
    x = data(40, 3).astype(np.float64)  # what NumPy makes unless told otherwise
    y = x @ np.array([1.0, -2.0, 0.5]) + 0.1
    inputs, wanted = torch.from_numpy(x).float().cuda(), torch.Tensor(y).cuda()
    model = settled(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    history: list[float] = []
    curve = np.zeros(6)
    for epoch in range(6):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs).squeeze(), wanted)
        loss.backward()
        optimizer.step()
        history.append(loss.detach().cpu().numpy().item())
        curve[epoch] = loss.item()
    predicted = model(inputs).detach().cpu().numpy().ravel()
    residual = predicted - y
    at_home = model(inputs).detach().cpu()
    stacked = np.concatenate([at_home, at_home.numpy()], axis=1)
    mixed = at_home.numpy() * np.ones(1) + np.asarray(at_home)
    mean, std = np.mean(predicted), np.std(np.array(at_home))
    rows = np.stack([t.cpu() for t in (inputs[0], inputs[1])])
    weights = [p.detach().cpu().numpy().copy() for p in model.parameters()]
    scalars = {
        "float": float(loss),
        "int": int(torch.tensor(3).cuda()),
        "index": [10, 20, 30][torch.tensor(1).cuda()],
        "format": f"{loss:.3f} {loss.item():.2e}",
        "bool": bool(loss > 0),
        "round": round(loss.item(), 3),
        "max": max(history),
        "numpy scalar": float(np.float64(2.0) * torch.ones(1).cuda().item()),
        "range": list(range(torch.tensor(2).cuda())),
        "size": inputs.shape[0] * 2,
    }
    double = torch.from_numpy(x)
    shares = np.ones(3, dtype=np.float32)
    view = torch.from_numpy(shares)
    labels = (torch.from_numpy(y) > 0).numpy().astype(int)
    return {
        "history": history,
        "curve": curve.tolist(),
        "residual": residual.tolist(),
        "stacked": stacked.tolist(),
        "mixed": mixed.tolist(),
        "stats": [float(mean), float(std)],
        "rows": rows.tolist(),
        "scalars": scalars,
        "weights": [w.tolist() for w in weights],
        "double": double.sum().item(),
        "labels": labels.tolist(),
        "view": view.tolist(),
        "array of": np.array([t.item() for t in inputs[0]]).tolist(),
        "percentile": float(np.percentile(predicted, 90)),
        "where": np.where(at_home > 0, 1, 0).ravel().tolist(),
        "argsort": np.argsort(at_home.ravel()).tolist()[:3],
        "allclose": bool(np.allclose(at_home, predicted[:, None])),
    }
