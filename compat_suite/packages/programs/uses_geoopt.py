"""Optimization on manifolds: spheres, the Poincare ball, Stiefel matrices."""

import geoopt
import torch

STEPS = 30
torch.manual_seed(0)
target = torch.nn.functional.normalize(torch.randn(5, 3), dim=-1)
for name, manifold, start in (
    ("sphere", geoopt.Sphere(), torch.nn.functional.normalize(torch.randn(5, 3), dim=-1)),
    ("ball", geoopt.PoincareBall(c=1.0), torch.randn(5, 3) * 0.1),
    ("Stiefel", geoopt.CanonicalStiefel(), torch.linalg.qr(torch.randn(5, 3))[0]),
    ("Lorentz", geoopt.Lorentz(), geoopt.Lorentz().projx(torch.randn(5, 3))),
):
    x = geoopt.ManifoldParameter(start.clone(), manifold=manifold)
    for kind, optimizer in (
        ("SGD", geoopt.optim.RiemannianSGD([x], lr=0.05, momentum=0.9)),
        ("Adam", geoopt.optim.RiemannianAdam([x], lr=0.02)),
    ):
        losses = []
        for _ in range(STEPS):
            loss = (x - 0.5 * target).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(f"{loss.item():.4f}")
        print(name, kind, losses[:5], losses[-1], manifold.check_point_on_manifold(x.detach(), atol=1e-3))
ball = geoopt.PoincareBall()
u, v = torch.randn(2, 4, 3).mul(0.2).unbind(0)
print("dist", [f"{d:.4f}" for d in ball.dist(u, v).tolist()])
print("exp", [f"{d:.4f}" for d in ball.expmap(u, v).sum(-1).tolist()])
print("mobius", [f"{d:.4f}" for d in ball.mobius_add(u, v).sum(-1).tolist()])
