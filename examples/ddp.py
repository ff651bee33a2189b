"""Train a small transformer in several processes, each on its share of the data.

The network learns to turn sequences of digits around: for 3 1 4 it has to answer 4 1 3. The program is ordinary
PyTorch; every process runs all of it, and DistributedDataParallel averages their gradients in each backward. With
--fsdp, each process has a part of each parameter, gradient and average of the optimizer instead.

    torchrun --nproc-per-node 2 examples/ddp.py
    python -m torchgrad_jax -m torch.distributed.run --nproc-per-node 2 examples/ddp.py
    torchgrad-jax-run --nproc-per-node 2 examples/ddp.py --fsdp
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

DIGITS = 10


class Reverser(nn.Module):
    """A transformer that gives, for each place of a sequence, the logits of the digit that belongs there."""

    def __init__(self, length, width, layers):
        super().__init__()
        self.digits = nn.Embedding(DIGITS, width)
        self.places = nn.Parameter(0.1 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, DIGITS)

    def forward(self, x):
        return self.head(self.blocks(self.digits(x) + self.places))


def sequences(examples, length):
    """Sequences and their reversals, the same in all processes."""
    x = torch.randint(DIGITS, (examples, length), generator=torch.Generator().manual_seed(1))
    return TensorDataset(x, x.flip(1))


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--examples", type=int, default=2048)
    parser.add_argument("--batch-size", type=int, default=64, help="of all processes together")
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--fsdp", action="store_true", help="split parameters over the processes")
    return parser.parse_args()


def spread(model, fsdp):
    """The model, for all processes."""
    if not fsdp:
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.blocks.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(args):
    rank, processes = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = spread(Reverser(args.length, args.width, args.layers), args.fsdp)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    data = sequences(args.examples, args.length)
    sampler = DistributedSampler(data)  # each process gets its share
    loader = DataLoader(data, batch_size=args.batch_size // processes, sampler=sampler)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)  # in another order
        sums = torch.zeros(3)  # of the losses, of right answers, and of answers
        for x, y in loader:
            optimizer.zero_grad()
            logits = model(x)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
            loss.backward()  # averages the gradients of all processes
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            right = (logits.argmax(-1) == y).sum()
            sums += torch.tensor([loss.item() * y.numel(), right.item(), y.numel()])
        dist.all_reduce(sums)
        if rank == 0:
            loss, accuracy = sums[0] / sums[2], sums[1] / sums[2]
            print(f"epoch {epoch + 1}: loss {loss:.5f}, accuracy {accuracy:.4f}", flush=True)


def main():
    args = parse_args()
    dist.init_process_group("gloo")
    try:
        train(args)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
