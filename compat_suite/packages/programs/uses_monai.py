"""Networks, losses and metrics of medical imaging."""

import torch
from monai.losses import DiceCELoss, DiceLoss, FocalLoss, SSIMLoss
from monai.metrics import DiceMetric, compute_hausdorff_distance
from monai.networks.nets import UNet
from monai.networks.utils import one_hot

STEPS = 30
SIZE = 128  # of which the first layer gives 3 x 4 x 64 x 64 elements, more than NumPy computes
torch.set_default_dtype(torch.float64)  # in single precision Adam makes steps of the rounding before a batch norm
torch.manual_seed(0)
x = torch.randn(3, 1, SIZE, SIZE)
y = torch.randint(0, 2, (3, 1, SIZE, SIZE))
net = UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,), num_res_units=1, norm="batch")
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for kind in (
    DiceLoss(to_onehot_y=True, softmax=True),
    DiceCELoss(to_onehot_y=True, softmax=True),
    FocalLoss(to_onehot_y=True),
):
    for step in range(STEPS):
        loss = kind(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (1, STEPS - 1):
            print(type(kind).__name__, f"{loss.item():.4f}")
prediction = one_hot(net(x).argmax(1, keepdim=True), 2)
metric = DiceMetric(include_background=False)
metric(prediction, one_hot(y, 2))
print("Dice", f"{metric.aggregate().item():.3f}")
print("SSIM", f"{SSIMLoss(spatial_dims=2)(torch.rand(1, 1, 16, 16), torch.rand(1, 1, 16, 16)).item():.4f}")
print("Hausdorff", f"{compute_hausdorff_distance(prediction, one_hot(y, 2)).mean().item():.3f}")
