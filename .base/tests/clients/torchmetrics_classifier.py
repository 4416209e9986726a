"""torchmetrics: metrics that live on the device follow a classifier as it learns."""

from __future__ import annotations

import pickle

import torch
from _client import (
    DEVICE,
    ON_CUDA,
    expect_device,
    expect_falling,
    expect_memory_figures,
    expect_on_device,
    report,
    seed,
)
from torch import nn
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)
from torchmetrics.regression import MeanSquaredError

CLASSES = 4


def metrics() -> MetricCollection:
    return MetricCollection(
        {
            "accuracy": MulticlassAccuracy(CLASSES),
            "f1": MulticlassF1Score(CLASSES),
            "auroc": MulticlassAUROC(CLASSES, thresholds=None),
            "confusion": MulticlassConfusionMatrix(CLASSES),
        }
    )


def train() -> dict[str, object]:
    seed()
    inputs = torch.randn(96, 8)
    labels = inputs[:, :CLASSES].argmax(1)
    inputs, labels = inputs.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True)
    model = nn.Linear(8, CLASSES).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    collection, mean = metrics().to(DEVICE), MeanMetric().to(DEVICE)
    error = MeanSquaredError().cuda() if ON_CUDA else MeanSquaredError()
    expect_device(collection["accuracy"].device)
    history: dict[str, list] = {"losses": [], "accuracy": [], "f1": [], "auroc": [], "error": []}
    for _ in range(5):
        for batch, wanted in zip(inputs.split(32), labels.split(32), strict=True):
            logits = model(batch)
            loss = nn.functional.cross_entropy(logits, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean.update(loss.detach())
            collection.update(logits.detach().softmax(1), wanted)
            error.update(logits.detach().argmax(1).float(), wanted.float())
        computed = collection.compute()
        expect_on_device(*computed.values(), mean.compute(), error.compute())
        assert computed["confusion"].sum().item() == len(inputs)
        history["losses"].append(mean.compute().item())
        history["error"].append(error.compute().item())
        for name in ("accuracy", "f1", "auroc"):
            history[name].append(computed[name].item())
        revived = pickle.loads(pickle.dumps(collection))
        torch.testing.assert_close(revived.compute()["f1"], computed["f1"])
        for metric in (mean, collection, error):
            metric.reset()
    expect_falling(history["losses"])
    assert history["accuracy"][-1] > history["accuracy"][0]
    return history


def main() -> None:
    results = {"float32": train()}
    expect_memory_figures()
    report(**results)


if __name__ == "__main__":
    main()
