"""Small image models of several families: forward, backward, a step; layers, optimizers, schedules."""

import torch

from compat_suite.packages.vision_operators import load

load()

import timm
from timm.data import Mixup
from timm.layers import BlurPool2d, DropPath, SelectAdaptivePool2d, resample_abs_pos_embed
from timm.loss import AsymmetricLossSingleLabel, LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV3, accuracy

STEPS = 30
torch.manual_seed(0)
x = torch.randn(2, 3, 32, 32)
y = torch.tensor([1, 3])
MODELS = {
    "resnet10t": {},
    "vit_tiny_patch16_224": {"img_size": 32, "depth": 2},
    "convnext_atto": {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)},
    "gmlp_ti16_224": {"img_size": 32},
    "mobilenetv3_small_050": {},
}
BATCH_NORMS = ("resnet10t", "mobilenetv3_small_050")
for name, options in MODELS.items():
    torch.manual_seed(1)
    try:
        # The gradients of MobileNet are in the millions.
        kind = torch.float64 if "mobile" in name else torch.float32
        model = timm.create_model(name, num_classes=5, **options).to(kind)
        optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-2, weight_decay=0.05)
        schedule = CosineLRScheduler(optimizer, t_initial=STEPS, warmup_t=2, warmup_lr_init=1e-4)
        losses = []
        for step in range(STEPS):
            schedule.step(step)
            loss = LabelSmoothingCrossEntropy(0.1)(model(x.to(kind)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(f"{loss.item():.3f}")
        # Batch norms over two values amplify rounding until the last loss is another in torch itself.
        last = bool(loss.isfinite()) if name in BATCH_NORMS else losses[-1]
        count = sum(p.numel() for p in model.parameters())
        features = model.eval().forward_features(x.to(kind))
        print(name, count, *losses[:2], last, tuple(features.shape), f"{optimizer.param_groups[0]['lr']:.6f}")
    except Exception as e:
        print(name, type(e).__name__, str(e)[:200])
torch.manual_seed(2)
net = timm.create_model("resnet10t", features_only=True, out_indices=(0, 1))
print("features", [tuple(f.shape) for f in net(x)], net.feature_info.channels())
print("pools", *(f"{SelectAdaptivePool2d(pool_type=p)(x).sum().item():.4f}" for p in ("avg", "max", "avgmax")))
print("blur", f"{BlurPool2d(3)(x).sum().item():.4f}", f"{DropPath(0.5).eval()(x).sum().item():.4f}")
embed = torch.randn(1, 17, 8)
print("positions", f"{resample_abs_pos_embed(embed, new_size=[6, 6]).square().sum().item():.3f}")
scores = torch.randn(4, 5, requires_grad=True)
loss = AsymmetricLossSingleLabel()(scores, torch.tensor([0, 1, 2, 4]))
loss.backward()
print("asymmetric", f"{loss.item():.4f} {scores.grad.norm().item():.4f}")
print("accuracy", [f"{a.item():.2f}" for a in accuracy(scores, torch.tensor([0, 1, 2, 4]), (1, 3))])
meter = AverageMeter()
meter.update(2.0, 3)
print("meter", meter.avg)
line = torch.nn.Linear(3, 2)
ema = ModelEmaV3(line, decay=0.5)
with torch.no_grad():
    line.weight.add_(1.0)
ema.update(line)
print("EMA", f"{(line.weight - ema.module.weight).sum().item():.4f}")
for opt in ("lamb", "adafactor", "lion", "nadamw", "adan", "rmsproptf", "madgrad", "adopt", "lookahead_sgd"):
    torch.manual_seed(3)
    line = torch.nn.Linear(3, 2)
    optimizer = create_optimizer_v2(line, opt=opt, lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        line(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    print(opt, f"{line.weight.sum().item():.4f} {line.bias.sum().item():.4f}")
mixed, target = Mixup(mixup_alpha=0.2, prob=0.0, num_classes=5, label_smoothing=0.1)(x, y)
print("mixup", tuple(mixed.shape), f"{target.sum().item():.4f}")
for name, opt, options in (
    ("resnet10t", "nadamw", {}),
    ("vit_tiny_patch16_224", "lion", {"img_size": 32, "depth": 2}),
    ("vit_tiny_patch16_224", "nadamw", {"img_size": 32, "depth": 2}),
):
    torch.manual_seed(4)
    model = timm.create_model(name, num_classes=5, **options).double()  # lion takes the signs of gradients near zero
    optimizer = create_optimizer_v2(model, opt=opt, lr=1e-3, weight_decay=0.05)
    ema = ModelEmaV3(model, decay=0.9, use_warmup=True)
    for step in range(STEPS):
        batch = torch.randn(4, 3, 32, 32, dtype=torch.float64)
        loss = LabelSmoothingCrossEntropy(0.1)(model(batch), torch.randint(5, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model, step)
    with torch.no_grad():
        outs = [m.eval()(batch).norm().item() for m in (model, ema.module)]
    print(name, opt, "EMA", f"{loss.item():.5f} {outs[0]:.5f} {outs[1]:.5f}")
