"""Attributions: which inputs a prediction comes from, by gradients, layers and perturbations."""

import numpy as np
import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GradientShap,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    NeuronGradient,
    NoiseTunnel,
    Occlusion,
    Saliency,
)
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 16, 4)).eval()
x = torch.rand(2, 1, 6, 6)
base = torch.zeros_like(x)


def show(name, a):
    print(name, tuple(a.shape), f"{a.abs().sum().item():.4f} {a[0].flatten()[:3].sum().item():.4f}")


show("saliency", Saliency(net).attribute(x, target=1))
show("input x gradient", InputXGradient(net).attribute(x, target=1))
a, delta = IntegratedGradients(net).attribute(x, base, target=2, n_steps=16, return_convergence_delta=True)
show("integrated", a)
print("delta", bool(delta.abs().max() < 0.05))
show("DeepLift", DeepLift(net).attribute(x, base, target=2))
show("guided", GuidedBackprop(net).attribute(x, target=0))
show("occlusion", Occlusion(net).attribute(x, sliding_window_shapes=(1, 2, 2), target=1))
show("ablation", FeatureAblation(net).attribute(x, target=1, feature_mask=torch.arange(36).view(1, 1, 6, 6) // 6))
show("conductance", LayerConductance(net, net[0]).attribute(x, target=1, n_steps=8))
show("grad-CAM", LayerGradCam(net, net[0]).attribute(x, target=1))
show("neuron", NeuronGradient(net, net[0]).attribute(x, (1, 2, 2)))
torch.manual_seed(1)
show("noise tunnel", NoiseTunnel(Saliency(net)).attribute(x, nt_samples=4, stdevs=0.1, target=1))
torch.manual_seed(1)
np.random.seed(1)  # noqa: NPY002 - captum draws from the global generator
show("gradient SHAP", GradientShap(net).attribute(x, base, n_samples=3, target=1))
