"""Adapters: LoRA and its kin on small modules, trained, merged, saved and loaded."""

import tempfile

import peft
import torch
from torch import nn

STEPS = 30
ROWS = 3000  # times 16 features: more elements than NumPy computes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.second = nn.Linear(16, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(torch.relu(self.second(torch.relu(self.first(x)))))


torch.manual_seed(0)
x, y = torch.randn(ROWS, 6), torch.randint(0, 2, (ROWS,))
for config in (
    peft.LoraConfig(r=4, target_modules=["first", "second"], modules_to_save=["head"], lora_dropout=0.0),
    peft.LoraConfig(r=2, target_modules=["second"], use_dora=True),
    peft.LoraConfig(r=2, target_modules=["first", "second"], use_rslora=True, init_lora_weights="pissa"),
    peft.LoHaConfig(r=2, target_modules=["second"]),
    peft.LoKrConfig(r=2, target_modules=["second"]),
    peft.IA3Config(target_modules=["first", "second"], feedforward_modules=["second"]),
    peft.OFTConfig(r=0, oft_block_size=4, target_modules=["second"]),
    peft.VeraConfig(r=4, target_modules=["second"]),
):
    name = type(config).__name__
    try:
        torch.manual_seed(1)
        base = Net()
        model = peft.get_peft_model(base, config)
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-2)
        losses = []
        for _ in range(STEPS):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(f"{loss.item():.4f}")
        print(name, sum(p.numel() for p in trained), losses[:4], losses[-1])
        out = model(x).detach()
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            torch.manual_seed(1)
            again = peft.PeftModel.from_pretrained(Net(), folder)
            print("loaded", (again(x) - out).abs().max().item() < 1e-5)
        merged = model.merge_and_unload()
        print("merged", (merged(x) - out).abs().max().item() < 1e-4)
    except Exception as e:
        print(name, type(e).__name__, str(e)[:300])
