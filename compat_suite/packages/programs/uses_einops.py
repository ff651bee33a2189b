"""Rearranging, reducing, repeating and contracting by pattern; layers of it."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

torch.manual_seed(0)
x = torch.randn(2, 6, 4, requires_grad=True)
y = rearrange(x, "b (h w) c -> b c h w", h=2)
z = reduce(y, "b c (h a) w -> b c h", "max", a=2)
z = z.sum() + reduce(x, "b n c -> b", "mean").prod() + repeat(x, "b n c -> b (n r) c", r=2).pow(2).sum()
z = z + einsum(x, x, "b i c, b j c -> b i j").tanh().sum()
z.backward()
print(f"{z.item():.5f}", y.shape, y.stride(), y.is_contiguous(), [f"{v:.5f}" for v in x.grad.sum((0, 1)).tolist()])
packed, shapes = pack([x, torch.ones(2, 4)], "b * c")
print(packed.shape, [tuple(s) for s in shapes], [tuple(p.shape) for p in unpack(packed, shapes, "b * c")])
net = torch.nn.Sequential(
    Rearrange("b (h w) c -> b c h w", h=2),
    torch.nn.Conv2d(4, 3, 2),
    Reduce("b c h w -> b c", "mean"),
    EinMix("b c -> b d", weight_shape="c d", bias_shape="d", c=3, d=2),
)
out = net(x)
out.square().sum().backward()
print(net, f"{out.sum().item():.5f}", [f"{p.grad.norm().item():.5f}" for p in net.parameters()])
