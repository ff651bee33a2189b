"""Images: transforms old and new, models with their gradients, features by torch.fx, operators without C++."""

import numpy as np
import torch
from PIL import Image
from torch import nn

from compat_suite.packages.vision_operators import load

load()

from torchvision import datasets, models, ops, transforms, utils
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names
from torchvision.transforms import v2

STEPS = 30  # in double precision, since batches of four amplify rounding
torch.manual_seed(0)


def show(name, x):
    print(name, tuple(x.shape), x.dtype, f"{x.double().mean():.4f} {x.double().std():.4f}")


image = Image.fromarray((np.arange(64 * 48 * 3) % 251).reshape(48, 64, 3).astype(np.uint8))
augment = transforms.Compose(
    [
        transforms.RandomResizedCrop(32),
        transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(0.3, 0.3, 0.3, 0.1),
        transforms.ToTensor(),
        transforms.Normalize((0.5,) * 3, (0.5,) * 3),
        transforms.RandomErasing(),
    ]
)
for _ in range(2):
    show("augmented", augment(image))
x = torch.rand(2, 3, 40, 40)
for t in (
    transforms.RandomRotation(20),
    transforms.RandomAffine(10, (0.1, 0.1), (0.8, 1.2), 5),
    transforms.GaussianBlur(5),
    transforms.RandomPerspective(p=1.0),
    transforms.Resize(24),
    transforms.Grayscale(),
    transforms.RandomSolarize(0.5, p=1.0),
    transforms.ElasticTransform(),
    v2.RandomZoomOut(p=1.0),
    v2.RandomResizedCrop(16, antialias=True),
    v2.ColorJitter(0.2, 0.2, 0.2, 0.2),
):
    show(type(t).__name__, t(x))
small = (x * 255).to(torch.uint8)
for t in (transforms.RandAugment(), transforms.TrivialAugmentWide(), transforms.AutoAugment()):
    show(type(t).__name__, t(small))
show("mixed up", v2.MixUp(num_classes=4)(x, torch.tensor([1, 2]))[0])

data = datasets.FakeData(8, (3, 32, 32), 4, transform=transforms.ToTensor())
images, labels = next(iter(torch.utils.data.DataLoader(data, 4, shuffle=True)))
model = models.resnet18(num_classes=4).double()
optimizer = torch.optim.SGD(model.parameters(), 0.001, momentum=0.9)
for step in range(STEPS):
    loss = nn.functional.cross_entropy(model(images.double()), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step < 2 or step == STEPS - 1:
        print(f"loss {loss.item():.3f}")
model.eval()
print(get_graph_node_names(model)[0][:12])
for name, features in create_feature_extractor(model, {"layer2": "a", "layer4": "b"})(x.double()).items():
    print(name, tuple(features.shape))

boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30.0]])
show("grid", utils.make_grid(x))
show("overlaps", ops.box_iou(boxes, boxes))
show("aligned", ops.roi_align(x, [boxes, boxes], 4, sampling_ratio=2))
print(f"{ops.sigmoid_focal_loss(x, (x > 0.5).float(), reduction='mean'):.4f}")
