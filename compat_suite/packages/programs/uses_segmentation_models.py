"""Segmentation: a U-Net and a feature pyramid on small encoders, losses, metrics, a training step."""

import torch

from compat_suite.packages.vision_operators import load

load()

import segmentation_models_pytorch as smp

STEPS = 30
torch.manual_seed(0)
x = torch.randn(2, 3, 64, 64)
masks = (torch.rand(2, 1, 64, 64) > 0.5).float()
for make, options in (
    (smp.Unet, {"decoder_channels": (16, 8, 8), "encoder_depth": 3}),
    (smp.FPN, {"decoder_pyramid_channels": 16, "decoder_segmentation_channels": 32}),
    (smp.DeepLabV3Plus, {"decoder_channels": 16}),
):
    torch.manual_seed(1)
    try:
        model = make("resnet18", encoder_weights=None, classes=1, **options)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for step in range(STEPS):
            loss = smp.losses.DiceLoss("binary")(model(x), masks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step < 2:
                print(make.__name__, f"{loss.item():.4f}")
        # Batch norms over so few values amplify rounding until the last loss is another in torch itself.
        print(make.__name__, bool(loss.isfinite()))
    except Exception as e:
        print(make.__name__, type(e).__name__, str(e)[:200])
scores = torch.randn(2, 1, 8, 8, requires_grad=True)
wanted = (torch.rand(2, 1, 8, 8) > 0.5).long()
for loss_of in (
    smp.losses.JaccardLoss("binary"),
    smp.losses.FocalLoss("binary"),
    smp.losses.LovaszLoss("binary"),
    smp.losses.TverskyLoss("binary", alpha=0.3, beta=0.7),
    smp.losses.SoftBCEWithLogitsLoss(smooth_factor=0.1),
):
    try:
        loss = loss_of(scores, wanted.float())
        (slope,) = torch.autograd.grad(loss, scores)
        print(type(loss_of).__name__, f"{loss.item():.4f} {slope.norm().item():.5f}")
    except Exception as e:
        print(type(loss_of).__name__, type(e).__name__, str(e)[:200])
counts = smp.metrics.get_stats((scores > 0).long(), wanted, mode="binary")
print("counts", [c.sum().item() for c in counts])
for metric in (smp.metrics.iou_score, smp.metrics.f1_score, smp.metrics.accuracy):
    print(metric.__name__, f"{metric(*counts, reduction='micro').item():.4f}")
