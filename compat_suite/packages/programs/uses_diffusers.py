"""Diffusion: a small U-Net and an autoencoder with random weights, schedulers, the training loop, sampling."""

import tempfile

import torch
from accelerate import Accelerator
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    UNet2DConditionModel,
    UNet2DModel,
)
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel, compute_snr

STEPS = 30
EPOCHS = 8  # of four passes each
BATCH = 80  # images of 8 x 8 x 8: more elements than NumPy computes
torch.manual_seed(0)
net = UNet2DModel(
    sample_size=8,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(8, 16),
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=4,
)
print("parameters", sum(p.numel() for p in net.parameters()))
ddpm = DDPMScheduler(num_train_timesteps=50)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
schedule = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=STEPS + 1)
ema = EMAModel(net.parameters(), decay=0.9)
clean = torch.randn(BATCH, 1, 8, 8)
for step in range(STEPS):
    noise = torch.randn_like(clean)
    steps = torch.randint(0, 50, (BATCH,))
    loss = (net(ddpm.add_noise(clean, noise, steps), steps).sample - noise).square().mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    ema.step(net.parameters())
    if step < 3 or step == STEPS - 1:
        print("train", f"{loss.item():.4f} {schedule.get_last_lr()[0]:.6f}")
print("SNR", [f"{v:.4f}" for v in compute_snr(ddpm, torch.tensor([1, 25, 49])).tolist()])
net.eval()
start = torch.randn(1, 1, 8, 8)
for cls in (DDIMScheduler, EulerDiscreteScheduler, DPMSolverMultistepScheduler):
    try:
        scheduler = cls(num_train_timesteps=50)
        scheduler.set_timesteps(4)
        sample = start * scheduler.init_noise_sigma
        with torch.no_grad():
            for t in scheduler.timesteps:
                predicted = net(scheduler.scale_model_input(sample, t), t).sample
                sample = scheduler.step(predicted, t, sample).prev_sample
        print(cls.__name__, f"{sample.mean().item():.4f} {sample.std().item():.4f}")
    except Exception as e:
        print(cls.__name__, type(e).__name__, str(e)[:200])
torch.manual_seed(1)
vae = AutoencoderKL(
    in_channels=3,
    out_channels=3,
    latent_channels=2,
    block_out_channels=(8, 8),
    norm_num_groups=4,
    sample_size=16,
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
)
image = torch.rand(1, 3, 16, 16)
posterior = vae.encode(image).latent_dist
loss = (vae.decode(posterior.sample()).sample - image).square().mean() + 1e-3 * posterior.kl().mean()
loss.backward()
grads = sum(p.grad.square().sum() for p in vae.parameters() if p.grad is not None).sqrt()
print("autoencoder", tuple(posterior.mean.shape), f"{loss.item():.4f} {grads.item():.4f}")
torch.manual_seed(2)
conditioned = UNet2DConditionModel(
    sample_size=8,
    in_channels=2,
    out_channels=2,
    layers_per_block=1,
    block_out_channels=(8, 16),
    norm_num_groups=4,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    cross_attention_dim=8,
    attention_head_dim=4,
)
conditioned.enable_gradient_checkpointing()
text = torch.randn(1, 3, 8, requires_grad=True)
seen = torch.randn(1, 2, 8, 8)
optimizer = torch.optim.SGD(conditioned.parameters(), lr=1e-2)
for step in range(STEPS):
    optimizer.zero_grad()
    text.grad = None
    out = conditioned(seen, 7, encoder_hidden_states=text).sample
    out.square().mean().backward()
    optimizer.step()
    if step in (0, 1, STEPS - 1):
        print("conditioned", tuple(out.shape), f"{out.std().item():.4f} {text.grad.norm().item():.5f}")
torch.manual_seed(3)
accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
images = torch.utils.data.TensorDataset(torch.rand(12, 1, 8, 8) * 2 - 1)
loader = torch.utils.data.DataLoader(images, batch_size=3, shuffle=True)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4)
schedule = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=1, num_training_steps=2 * EPOCHS)
net, optimizer, loader, schedule = accelerator.prepare(net.train(), optimizer, loader, schedule)
for epoch in range(EPOCHS):
    for (clean,) in loader:
        with accelerator.accumulate(net):
            noise = torch.randn_like(clean)
            steps = torch.randint(0, 50, (len(clean),))
            predicted = net(ddpm.add_noise(clean, noise, steps), steps, return_dict=False)[0]
            loss = torch.nn.functional.mse_loss(predicted, noise)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    print("epoch", epoch, f"{loss.item():.4f} {schedule.get_last_lr()[0]:.6f}")
pipeline = DDPMPipeline(unet=accelerator.unwrap_model(net), scheduler=ddpm)
pipeline.set_progress_bar_config(disable=True)
with tempfile.TemporaryDirectory() as folder:
    pipeline.save_pretrained(folder)
    loaded = DDPMPipeline.from_pretrained(folder)
loaded.set_progress_bar_config(disable=True)
for made in (pipeline, loaded):
    drawn = made(2, torch.Generator().manual_seed(0), num_inference_steps=3, output_type="np").images
    print("drawn", drawn.shape, f"{drawn.mean():.4f} {drawn.std():.4f}")
