"""A llama of 6.7 billion parameters, split over 16 TPUs or 8 GPUs (FSDP) that one doesn't have: does its training fit?

    python -m torchgrad_jax plan examples/plan_llama.py --on v5e:4x4 --on h100:8 --by-layers
    python -m torchgrad_jax examples/plan_llama.py --layers 2 --width 64 --tokens 100 --length 32 --steps 2

It is an ordinary script; the model is the one of transformers (`pip install transformers`). It trains on random
tokens, one text for each accelerator that there is. `plan` runs it until its step is known, with shapes in the place of
values, so that no machine has to hold the model: parameters in bfloat16, AdamW. Of 32 equal layers `--by-layers`
compiles 2 and then 4, and a line through both plans gives that of the whole model.
"""

import argparse

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    parser = argparse.ArgumentParser()
    for name, number in {"layers": 32, "width": 4096, "heads": 32, "tokens": 32000, "length": 2048}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--inner", type=int, help="features between the two products of a layer")
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()

    device = torch.accelerator.current_accelerator() or torch.device("cpu")
    devices = max(1, torch.accelerator.device_count())
    config = LlamaConfig(
        num_hidden_layers=args.layers,
        hidden_size=args.width,
        intermediate_size=args.inner or args.width * 43 // 16,
        num_attention_heads=args.heads,
        vocab_size=args.tokens,
        max_position_embeddings=args.length,
        use_cache=False,
    )
    torch.manual_seed(0)
    with device:
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    mesh = init_device_mesh(device.type, (devices,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")

    @torch.compile
    def step(tokens):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    for i in range(args.steps):
        tokens = torch.randint(0, args.tokens, (devices, args.length), device=device)
        loss = step(distribute_tensor(tokens, mesh, [Shard(0)]))
        print(f"step {i}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
