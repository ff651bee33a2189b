"""Losses and miners for learning distances."""

import torch
from pytorch_metric_learning import distances, losses, miners, reducers

torch.manual_seed(0)
x = torch.randn(12, 6, requires_grad=True)
y = torch.arange(12) % 4
for loss in (
    losses.TripletMarginLoss(),
    losses.ContrastiveLoss(),
    losses.NTXentLoss(0.5),
    losses.MultiSimilarityLoss(),
    losses.CircleLoss(),
    losses.AngularLoss(),
    losses.LiftedStructureLoss(),
    losses.NPairsLoss(),
    losses.SupConLoss(),
    losses.FastAPLoss(),
    losses.ArcFaceLoss(4, 6),
    losses.ProxyNCALoss(4, 6),
    losses.CosFaceLoss(4, 6),
    losses.SoftTripleLoss(4, 6),
    losses.MarginLoss(),
):
    x.grad = None
    torch.manual_seed(1)
    value = loss(x, y)
    value.backward()
    print(type(loss).__name__, f"{value.item():.5f} {x.grad.norm().item():.5f}")
pairs = miners.BatchHardMiner()(x, y)
print([t.tolist() for t in pairs])
loss = losses.TripletMarginLoss(distance=distances.CosineSimilarity(), reducer=reducers.ThresholdReducer(low=0.1))
print(f"{loss(x, y, miners.MultiSimilarityMiner()(x, y)).item():.5f}")
