"""Tensor and sequence parallelism, alone and with data parallelism, as torch's tutorials write them."""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._tensor import Replicate, Shard
from torch.distributed._tensor.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj, self.relu, self.out_proj = nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 5)

    def forward(self, x):
        return self.out_proj(self.relu(self.in_proj(x)))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n_heads, self.head_dim = heads, dim // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (w(x).view(b, s, -1, self.head_dim).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(out.transpose(1, 2).contiguous().view(b, s, -1))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w2 = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention, self.feed_forward = Attention(dim, heads), FeedForward(dim, 4 * dim)
        self.attention_norm, self.ffn_norm = nn.RMSNorm(dim), nn.RMSNorm(dim)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Transformer(nn.Module):
    def __init__(self, vocabulary=32, dim=16, heads=4, layers=2):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm, self.output = nn.RMSNorm(dim), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h)).float()


OUTER = {
    "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}


def block_plan():
    return {
        "attention_norm": SequenceParallel(),
        "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "attention.wq": ColwiseParallel(),
        "attention.wk": ColwiseParallel(),
        "attention.wv": ColwiseParallel(),
        "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
        "ffn_norm": SequenceParallel(),
        "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "feed_forward.w1": ColwiseParallel(),
        "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
        "feed_forward.w3": ColwiseParallel(),
    }


def tensor_parallel(mesh):
    torch.manual_seed(0)
    plan = {"in_proj": ColwiseParallel(), "out_proj": RowwiseParallel()}
    model = parallelize_module(ToyModel(), mesh, plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25, foreach=True)
    for i in range(3):
        torch.manual_seed(i)
        output = model(torch.rand(20, 10))
        output.sum().backward()
        optimizer.step()
        say(f"tensor parallel, step {i}: {output.sum().item():.2f}")


def sequence_parallel(mesh):
    torch.manual_seed(0)
    plan = {"in_proj": ColwiseParallel(input_layouts=Shard(0)), "out_proj": RowwiseParallel(output_layouts=Shard(0))}
    model = parallelize_module(ToyModel(), mesh, plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25, foreach=True)
    torch.manual_seed(dist.get_rank())
    for i in range(3):
        output = model(torch.rand(20, 10))
        output.sum().backward()
        optimizer.step()
        say(f"sequence parallel, step {i}: {output.sum().item():.2f}")


def two_dimensions(mesh):
    dp, tp = mesh["dp"], mesh["tp"]
    torch.manual_seed(0)
    model = parallelize_module(Transformer(), tp, OUTER)
    for block in model.layers:
        attention = block.attention
        attention.n_heads = attention.n_heads // tp.size()
        parallelize_module(block, tp, block_plan())
    fully_shard(model, mesh=dp)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=True)
    for i in range(3):
        torch.manual_seed(i + dp.get_local_rank())
        x = torch.randint(32, (8, 16))
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        say(f"two dimensions, step {i}: {loss.item():.4f}")


def say(text):
    sys.stdout.write(f"rank {dist.get_rank()}, {text}\n")  # print would write the end of the line apart


def main():
    dist.init_process_group(backend="gloo")
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    tensor_parallel(mesh)
    sequence_parallel(mesh)
    mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "tp"))
    two_dimensions(mesh)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
