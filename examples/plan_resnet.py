"""ResNet-50 on an H100 that one doesn't have: does a batch of 256 images fit, and how long is a step at least?

    python -m torchgrad_jax plan examples/plan_resnet.py --on h100
    python -m torchgrad_jax examples/plan_resnet.py --blocks 1 1 --width 8 --size 32 --batch 4 --steps 2

It is an ordinary script, which trains on random images, on the accelerator that there is. `plan` runs it until its step
is known, with shapes in the place of values: 25.6 million parameters, autocast to bfloat16, SGD with momentum.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, width, inner, stride):
        super().__init__()
        outer = 4 * inner
        self.main = nn.Sequential(
            *(nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU()),
            *(nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU()),
            *(nn.Conv2d(inner, outer, 1, bias=False), nn.BatchNorm2d(outer)),
        )
        same = stride == 1 and width == outer
        ways = () if same else (nn.Conv2d(width, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        self.short = nn.Sequential(*ways)

    def forward(self, x):
        return F.relu(self.main(x) + self.short(x))


def resnet(blocks, width, classes):
    layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    now = width
    for stage, count in enumerate(blocks):
        inner = width << stage
        for i in range(count):
            layers.append(Bottleneck(now, inner, stride=2 if stage and not i else 1))
            now = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(now, classes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, nargs="+", default=[3, 4, 6, 3], help="how many there are in each stage")
    for name, number in {"width": 64, "classes": 1000, "size": 224, "batch": 256, "steps": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    args = parser.parse_args()

    device = torch.accelerator.current_accelerator() or torch.device("cpu")
    torch.manual_seed(0)
    model = resnet(args.blocks, args.width, args.classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")

    @torch.compile
    def step(images, labels):
        with torch.autocast(device.type, torch.bfloat16):
            scores = model(images)
        loss = F.cross_entropy(scores.float(), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    for i in range(args.steps):
        images = torch.randn(args.batch, 3, args.size, args.size, device=device)
        labels = torch.randint(0, args.classes, (args.batch,), device=device)
        print(f"step {i}  loss {step(images, labels).item():.4f}")


if __name__ == "__main__":
    main()
