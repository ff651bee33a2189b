"""Learned and fixed filterbanks of sound, of asteroid-filterbanks and of nnAudio, with their gradients."""

import torch
from asteroid_filterbanks import STFTFB, AnalyticFreeFB, Decoder, Encoder, FreeFB, ParamSincFB
from nnAudio import features

torch.manual_seed(0)
wave = torch.randn(2, 1, 2000, requires_grad=True)
for kind, filters, size in ((STFTFB, 64, 64), (FreeFB, 32, 16), (AnalyticFreeFB, 32, 16), (ParamSincFB, 32, 17)):
    torch.manual_seed(1)
    encoder, decoder = (end(kind(filters, size, size // 2)) for end in (Encoder, Decoder))
    found = encoder(wave)
    back = decoder(found, length=2000)
    wave.grad = None
    back.square().mean().backward()
    print(kind.__name__, tuple(found.shape), f"{back.abs().sum().item():.3f} {wave.grad.norm().item():.5f}")
sound = torch.randn(1, 8000, requires_grad=True)
for make in (
    lambda: features.STFT(n_fft=256, output_format="Magnitude", trainable=True, verbose=False),
    lambda: features.MelSpectrogram(sr=8000, n_fft=256, n_mels=16, verbose=False),
    lambda: features.CQT(sr=8000, n_bins=24, fmin=200, verbose=False),
):
    sound.grad = None
    out = make()(sound)
    out.square().sum().backward()
    print(tuple(out.shape), f"{out.sum().item():.3f} {sound.grad.norm().item():.3f}")
