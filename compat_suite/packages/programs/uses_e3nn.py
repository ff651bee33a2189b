"""Networks that turn with their input: spherical harmonics, tensor products, gates."""

import torch
from e3nn import o3
from e3nn.nn import FullyConnectedNet, Gate

torch.manual_seed(0)
x = torch.randn(6, 3)
sh = o3.spherical_harmonics([0, 1, 2, 3], x, normalize=True, normalization="component")
print("harmonics", tuple(sh.shape), f"{sh.square().sum().item():.4f} {sh.sum().item():.4f}")
irreps = o3.Irreps("4x0e + 2x1o + 1x2e")
print(irreps, irreps.dim)
for name, make in {
    "fully connected": lambda: o3.FullyConnectedTensorProduct(irreps, "1x0e+1x1o+1x2e", "3x0e + 2x1o"),
    "tensor square": lambda: o3.TensorSquare(irreps, irreps_out="2x0e+1x1o+1x2e"),
    "linear": lambda: o3.Linear(irreps, "2x0e + 3x1o"),
}.items():
    try:
        torch.manual_seed(1)
        layer = make()
        feature = irreps.randn(6, -1).requires_grad_()
        second = sh[:, :9]
        out = layer(feature, second) if name == "fully connected" else layer(feature)
        out.square().sum().backward()
        print(name, tuple(out.shape), f"{out.sum().item():.4f} {feature.grad.norm().item():.4f}")
    except Exception as e:
        print(name, type(e).__name__, str(e)[:300])
rotation = o3.rand_matrix()
turn = irreps.D_from_matrix(rotation)
print("wigner", bool(torch.allclose(turn @ turn.T, torch.eye(irreps.dim), atol=1e-3)))
turned = o3.spherical_harmonics([1, 2], x @ rotation.T, True)
print(
    "equivariant",
    bool(
        torch.allclose(
            turned, o3.spherical_harmonics([1, 2], x, True) @ o3.Irreps("1o+2e").D_from_matrix(rotation).T, atol=1e-4
        )
    ),
)
net = FullyConnectedNet([3, 8, 2], torch.nn.functional.silu)
out = net(x)
out.sum().backward()
print("net", f"{out.sum().item():.4f}")
gate = Gate("2x0e", [torch.tanh], "1x0e", [torch.sigmoid], "1x1o")
print("gate", f"{gate(gate.irreps_in.randn(4, -1)).sum().item():.4f}")
print("wigner 3j", f"{o3.wigner_3j(1, 1, 2).square().sum().item():.4f}")
