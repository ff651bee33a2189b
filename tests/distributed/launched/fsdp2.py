"""FSDP2 as torch's tutorial writes it: split layers that begin on the meta device, prefetching, a whole state dict."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._tensor import DTensor, distribute_tensor
from torch.distributed.checkpoint.state_dict import _init_optim_state, get_optimizer_state_dict
from torch.distributed.fsdp import FSDPModule, fully_shard


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.ffn_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        split = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(*split, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.ffn(self.ffn_norm(x))


class Transformer(nn.Module):
    def __init__(self, vocabulary=16, dim=16, heads=4, layers=3):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm, self.output = nn.LayerNorm(dim), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x)).float()

    def reset_parameters(self):
        torch.manual_seed(7)
        for p in self.parameters():
            nn.init.normal_(p, std=0.3)


def set_prefetching(model):
    for before, after in zip(model.layers, model.layers[1:]):
        before.set_modules_to_forward_prefetch([after])
        after.set_modules_to_backward_prefetch([before])


def inspect(model):
    assert isinstance(model, FSDPModule)
    for param in model.parameters():
        assert isinstance(param, DTensor)
        assert param.dtype == torch.float32
        assert param.placements[0].is_shard(0)


def say(text):
    sys.stdout.write(f"rank {dist.get_rank()}, {text}\n")  # print would write the end of the line apart


def main():
    dist.init_process_group(backend="gloo")
    rank = dist.get_rank()
    with torch.device("meta"):
        model = Transformer()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    inspect(model)
    set_prefetching(model)
    whole = Transformer()
    whole.reset_parameters()
    parts = {}
    for name, value in whole.state_dict().items():
        param = model.get_parameter(name)
        parts[name] = nn.Parameter(distribute_tensor(value, param.device_mesh, param.placements))
    model.load_state_dict(parts, assign=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    _init_optim_state(optimizer)
    torch.manual_seed(rank)
    for step in range(3):
        model.unshard()
        x = torch.randint(0, 16, (4, 8))
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        say(f"step {step}: loss {loss.item():.4f}, norm {norm.item():.4f}")
    full = {n: p.full_tensor() for n, p in model.state_dict().items()}
    state = get_optimizer_state_dict(model, optimizer)["state"]["output.weight"]["exp_avg"]
    say(f"weights {full['output.weight'].abs().sum().item():.3f}, {isinstance(state, DTensor)}")
    path = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(path)
    if rank == 0:
        torch.save(full, os.path.join(path[0], "model.pt"))
    dist.barrier()
    read = torch.load(os.path.join(path[0], "model.pt"), mmap=True, weights_only=True)
    same = [torch.equal(read[n], p.full_tensor()) for n, p in model.state_dict().items()]
    say(f"{all(same)}, {len(same)} tensors")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
