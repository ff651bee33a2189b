"""Metrics that gather over batches: of classes, regressions, images, text."""

import torch
import torchmetrics as tm
from torchmetrics import functional as F

torch.manual_seed(0)
many = tm.MetricCollection(
    {
        "accuracy": tm.Accuracy("multiclass", num_classes=3),
        "f1": tm.F1Score("multiclass", num_classes=3, average="macro"),
        "auroc": tm.AUROC("multiclass", num_classes=3),
        "confusion": tm.ConfusionMatrix("multiclass", num_classes=3),
        "kappa": tm.CohenKappa("multiclass", num_classes=3),
        "calibration": tm.CalibrationError("multiclass", num_classes=3),
        "ap": tm.AveragePrecision("multiclass", num_classes=3),
    }
)
for _ in range(3):
    many.update(torch.randn(10, 3).softmax(1), torch.randint(0, 3, (10,)))
for name, value in sorted(many.compute().items()):
    print(name, [f"{v:.5f}" for v in value.flatten().tolist()])
a, b = torch.randn(20), torch.randn(20)
for metric in (
    tm.MeanSquaredError(),
    tm.R2Score(),
    tm.PearsonCorrCoef(),
    tm.SpearmanCorrCoef(),
    tm.ExplainedVariance(),
    tm.MeanAbsoluteError(),
):
    print(type(metric).__name__, f"{metric(a, b).item():.5f}")
x, y = torch.rand(1, 1, 24, 24), torch.rand(1, 1, 24, 24)
print(f"{F.structural_similarity_index_measure(x, y).item():.5f} {F.peak_signal_noise_ratio(x, y).item():.5f}")
print(
    F.pairwise_cosine_similarity(a.view(4, 5), b.view(4, 5))[0].tolist()[:1],
    F.retrieval_average_precision(torch.tensor([0.2, 0.9, 0.5]), torch.tensor([True, False, True])).item(),
)
