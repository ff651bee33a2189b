"""Sound of torchaudio: spectrograms, effects, three small models with their losses."""

import importlib
import sys
import types

import torch

try:
    importlib.import_module("torchaudio")
except OSError:  # its library is for CUDA
    for name in [n for n in sys.modules if n.startswith("torchaudio")]:
        del sys.modules[name]
    missing = {"_IS_TORCHAUDIO_EXT_AVAILABLE": False, "_IS_ALIGN_AVAILABLE": False, "fail_if_no_align": lambda f: f}
    without = sys.modules["torchaudio._extension"] = types.ModuleType("torchaudio._extension")
    vars(without).update(missing)
from torchaudio import functional as F, models, transforms as T

STEPS = 30
torch.manual_seed(0)
rate = 8000
sound = torch.randn(2, 4000, requires_grad=True)


def said(name, x):
    (slope,) = torch.autograd.grad(x.abs().sum(), sound, retain_graph=True)
    print(name, tuple(x.shape), f"{x.abs().double().sum().item():.4e} {slope.double().norm().item():.4e}")


for name, make in {
    "spectrogram": T.Spectrogram(n_fft=256),
    "mel": T.MelSpectrogram(rate, n_fft=256, n_mels=20),
    "mfcc": T.MFCC(rate, n_mfcc=10, melkwargs={"n_fft": 256, "n_mels": 20}),
    "decibels": torch.nn.Sequential(T.Spectrogram(n_fft=256), T.AmplitudeToDB()),
    "resampled": T.Resample(rate, 6000),
    "vol": T.Vol(0.5),
    "fade": T.Fade(500, 500),
}.items():
    said(name, make(sound))
for name, fn in {
    "convolve": lambda x: F.convolve(x, torch.hann_window(32).expand(2, 32)),
    "preemphasis": lambda x: F.preemphasis(x),
    "contrast": lambda x: F.contrast(x),
}.items():
    said(name, fn(sound.clamp(-0.9, 0.9)))
mel = T.MelSpectrogram(rate, n_fft=256, n_mels=20)(sound.detach())
masked = T.TimeMasking(10)(T.FrequencyMasking(5)(mel))
print(
    "masked",
    f"{masked.double().sum().item():.4e}",
    f"{T.GriffinLim(256, n_iter=2, rand_init=False)(mel.new_ones(2, 129, 10)).abs().sum().item():.4f}",
)
log = torch.randn(20, 2, 5).log_softmax(2).transpose(0, 1).contiguous().requires_grad_()
targets = torch.tensor([[1, 2, 3], [2, 4, 1]])
speech = models.Conformer(20, 2, 16, 1, 5)
optimizer = torch.optim.Adam(speech.parameters(), 1e-3)
frames = mel.transpose(1, 2)[:, :20]
for step in range(STEPS):
    out, lengths = speech(frames, torch.tensor([20, 15]))
    loss = out.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step < 2 or step == STEPS - 1:
        print("conformer", tuple(out.shape), lengths.tolist(), f"{loss.item():.4f}")
wave = models.wav2vec2_model(
    extractor_mode="group_norm",
    extractor_conv_layer_config=[(8, 10, 5), (8, 3, 2), (8, 3, 2)],
    extractor_conv_bias=False,
    encoder_embed_dim=16,
    encoder_projection_dropout=0.0,
    encoder_pos_conv_kernel=16,
    encoder_pos_conv_groups=4,
    encoder_num_layers=1,
    encoder_num_heads=2,
    encoder_attention_dropout=0.0,
    encoder_ff_interm_features=32,
    encoder_ff_interm_dropout=0.0,
    encoder_dropout=0.0,
    encoder_layer_norm_first=False,
    encoder_layer_drop=0.0,
    aux_num_out=6,
)
scores, _ = wave(sound.detach())
loss = torch.nn.functional.ctc_loss(
    scores.log_softmax(-1).transpose(0, 1), targets, torch.full((2,), scores.shape[1]), torch.tensor([3, 2])
)
loss.backward()
print("wav2vec2", tuple(scores.shape), f"{loss.item():.3f} {wave.aux.weight.grad.norm().item():.2f}")
net = models.ConvTasNet(num_sources=2, enc_kernel_size=8, enc_num_feats=16, msk_kernel_size=3, msk_num_feats=8,
                        msk_num_hidden_feats=16, msk_num_layers=2, msk_num_stacks=1)  # fmt: skip
loss = net(sound.detach()[:, None]).square().mean()
loss.backward()
print("tasnet", f"{loss.item():.5f} {sum(p.grad.norm().item() for p in net.parameters()):.4f}")
