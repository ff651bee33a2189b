"""Equations solved by networks in DeepXDE: boundary values, an unknown coefficient, an operator."""

import contextlib
import io
import os

os.environ["DDE_BACKEND"] = "pytorch"
with contextlib.redirect_stdout(io.StringIO()):
    import deepxde as dde
import numpy as np
import torch

STEPS = 30
POINTS = 2500  # times 20 features: more elements than NumPy computes
dde.config.set_random_seed(0)


def train(data, net, steps, **how):
    """Losses of a training."""
    model = dde.Model(data, net)
    with contextlib.redirect_stdout(io.StringIO()):
        model.compile("adam", lr=5e-3, **how)
        history, _ = model.train(iterations=steps, display_every=steps // 2, verbose=0)
    print([f"{np.sum(row):.5f}" for row in history.loss_train])
    return model


def poisson(x, y):
    return dde.grad.hessian(y, x) + np.pi**2 * torch.sin(np.pi * x)


line = dde.geometry.Interval(-1, 1)
ends = dde.icbc.DirichletBC(line, lambda x: 0, lambda x, on: on)
model = train(
    dde.data.PDE(line, poisson, ends, POINTS, 2), dde.nn.FNN([1, 20, 20, 1], "tanh", "Glorot uniform"), 2 * STEPS
)
print("between", model.predict(np.array([[0.25], [0.5]], np.float32)).round(3).tolist())
viscosity = dde.Variable(0.5)
area = dde.geometry.GeometryXTime(line, dde.geometry.TimeDomain(0, 1))


def burgers(x, y):
    slope = dde.grad.jacobian(y, x, j=0)
    return dde.grad.jacobian(y, x, j=1) + y * slope - viscosity * dde.grad.hessian(y, x, i=0, j=0)


start = dde.icbc.IC(area, lambda x: -np.sin(np.pi * x[:, :1]), lambda _, on: on)
data = dde.data.TimePDE(area, burgers, [start], 30, 6, 6, train_distribution="Hammersley")
net = dde.nn.PFNN([2, [8], [8], 1], "swish", "Glorot normal")
train(data, net, STEPS, external_trainable_variables=[viscosity])
print("viscosity", f"{viscosity.item():.5f}")
rng = np.random.default_rng(0)
functions, places = (rng.random(shape, np.float32) for shape in ((10, 12), (7, 2)))
data = dde.data.TripleCartesianProd(*((functions, places), functions[:, :7]) * 2)
train(data, dde.nn.DeepONetCartesianProd([12, 10, 8], [2, 10, 8], "relu", "Glorot normal"), STEPS)
