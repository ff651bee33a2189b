"""Differentiable image processing: filters, geometry, colours, losses."""

import kornia as K
import torch

torch.manual_seed(0)
x = torch.rand(1, 3, 12, 12, requires_grad=True)


def show(name, make):
    x.grad = None
    try:
        out = make()
        out.square().mean().backward()
        print(name, tuple(out.shape), f"{out.sum().item():.3f} {x.grad.norm().item():.4f}")
    except Exception as e:  # one line for each, whatever happens to it
        print(name, type(e).__name__, str(e).split(":")[0])


show("blur", lambda: K.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)))
show("sobel", lambda: K.filters.sobel(x))
show("median", lambda: K.filters.median_blur(x, (3, 3)))
show("canny", lambda: K.filters.canny(x)[0])
show("bilateral", lambda: K.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)))
show("rotate", lambda: K.geometry.rotate(x, torch.tensor([30.0])))
show(
    "warp",
    lambda: K.geometry.warp_perspective(
        x, torch.tensor([[[1.0, 0.1, 0.5], [0.0, 0.9, 1.0], [0.001, 0.0, 1.0]]]), (10, 10)
    ),
)
show("elastic", lambda: K.geometry.elastic_transform2d(x, torch.rand(1, 2, 12, 12)))
show("lab", lambda: K.color.rgb_to_lab(x))
show("hsv", lambda: K.color.rgb_to_hsv(x))
show("equalize", lambda: K.enhance.adjust_gamma(x, 1.5))
show("ssim", lambda: K.metrics.ssim(x, x.detach().flip(3), 5))
show("harris", lambda: K.feature.harris_response(x[:, :1], 0.04))
show("morphology", lambda: K.morphology.dilation(x, torch.ones(3, 3)))
torch.manual_seed(1)
augment = K.augmentation.AugmentationSequential(
    K.augmentation.RandomHorizontalFlip(p=1.0), K.augmentation.RandomErasing(p=0.0), data_keys=["input"]
)
show("augment", lambda: augment(x))
R = K.geometry.axis_angle_to_rotation_matrix(torch.tensor([[0.1, 0.2, 0.3]]))
print(
    [f"{v:.5f}" for v in R.flatten().tolist()],
    f"{K.losses.dice_loss(torch.randn(1, 2, 4, 4), torch.randint(0, 2, (1, 4, 4))).item():.5f}",
)
