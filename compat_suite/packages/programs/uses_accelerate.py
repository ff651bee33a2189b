"""The loop of Accelerate on one process: prepared objects, accumulated gradients, checkpoints."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

EPOCHS = 5  # of six passes each
set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
net = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
opt = torch.optim.AdamW(net.parameters(), 1e-2)
data = torch.utils.data.TensorDataset(torch.randn(24, 3), torch.randn(24, 1))
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 6 * EPOCHS)
net, opt, loader, sched = accelerator.prepare(net, opt, loader, sched)
for epoch in range(EPOCHS):
    for x, y in loader:
        with accelerator.accumulate(net):
            loss = torch.nn.functional.mse_loss(net(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            sched.step()
            opt.zero_grad()
        if epoch in (0, EPOCHS - 1):
            print(f"{loss.item():.5f} {sched.get_last_lr()[0]:.6f}", accelerator.sync_gradients)
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    accelerator.load_state(folder)
print(accelerator.device, accelerator.num_processes, f"{accelerator.gather(loss).mean().item():.5f}")
