"""Fine-tuning by torchtune of a tiny random Llama: all parameters, and LoRA's, merged afterwards; writing."""

import os
import tempfile
import warnings

warnings.simplefilter("ignore")
os.environ["TQDM_DISABLE"] = "1"
import logging

import torch
from torchtune.models.llama3 import llama3, lora_llama3
from torchtune.modules.peft import get_adapter_params, get_merged_lora_ckpt

logging.disable(logging.WARNING)
STEPS = 30
SIZES = {
    "vocab_size": 40,
    "num_layers": 2,
    "num_heads": 2,
    "num_kv_heads": 1,
    "embed_dim": 16,
    "max_seq_len": 32,
    "intermediate_dim": 32,
}


def batch(n):
    torch.manual_seed(n)
    tokens = torch.randint(3, 40, (2, 12))
    return tokens, torch.cat([tokens[:, 1:], torch.full((2, 1), -100)], 1)


def trained(name, model, parameters, steps=STEPS):
    from torchtune.modules.loss import CEWithChunkedOutputLoss
    from torchtune.training import get_cosine_schedule_with_warmup
    from torchtune.training.lr_schedulers import get_lr

    optimizer = torch.optim.AdamW(parameters, lr=1e-2, fused=False)
    schedule = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=1, num_training_steps=steps + 1)
    loss_of = CEWithChunkedOutputLoss(num_output_chunks=4)
    model.set_num_output_chunks(4)
    for step in range(steps):
        tokens, labels = batch(step)
        loss = loss_of(model(tokens), labels)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step < 3 or step == steps - 1:
            print(name, step, f"{loss.item():.4f} {float(norm):.4f} {get_lr(optimizer):.6f}")


torch.manual_seed(0)
model = llama3(**SIZES)
trained("full", model, list(model.parameters()))
torch.manual_seed(0)
lora = lora_llama3(["q_proj", "v_proj", "output_proj"], apply_lora_to_mlp=True, lora_rank=2, lora_alpha=4, **SIZES)
adapters = get_adapter_params(lora)
for p in lora.parameters():
    p.requires_grad_(False)
for p in adapters.values():
    p.requires_grad_(True)
trained("LoRA", lora, list(adapters.values()))
tokens, _ = batch(9)
lora.set_num_output_chunks(0)
merged = llama3(**SIZES)
merged.load_state_dict(get_merged_lora_ckpt(lora.state_dict(), rank=2, alpha=4))
with torch.no_grad():
    both = [torch.cat(m.eval()(tokens), 1) if isinstance(m(tokens), list) else m.eval()(tokens) for m in (merged, lora)]
    print("merged", f"{(both[0] - both[1]).abs().max().item():.4f}")
    from torchtune.generation import generate

    merged.setup_caches(batch_size=1, dtype=torch.float32, decoder_max_seq_len=20)
    written, _ = generate(merged, tokens[:1, :4], max_generated_tokens=6, top_k=1)
    print("written", written.tolist())
with tempfile.TemporaryDirectory() as folder:
    torch.save(merged.state_dict(), f"{folder}/merged.pt")
    print("saved", sum(v.double().abs().sum().item() for v in torch.load(f"{folder}/merged.pt").values()) > 0)
