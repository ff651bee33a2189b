"""Data parallel training as torch's tutorial writes it: a sampler, and a snapshot that rank 0 writes and all read."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def say(text):
    sys.stdout.write(f"rank {dist.get_rank()}, {text}\n")  # print would write the end of the line apart


def main():
    init_process_group(backend="gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    dataset = TensorDataset(torch.rand(64, 20), torch.rand(64, 1))
    loader = DataLoader(dataset, batch_size=8, shuffle=False, sampler=DistributedSampler(dataset))
    model = DDP(nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for source, targets in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(source), targets)
            loss.backward()
            optimizer.step()
        dist.all_reduce(loss)
        say(f"epoch {epoch}: {loss.item():.5f}")
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    path = os.path.join(folder[0], "snapshot.pt")
    if rank == 0:
        torch.save({"model": model.module.state_dict(), "epoch": epoch}, path)
    dist.barrier()
    snapshot = torch.load(path)
    say(f"read: epoch {snapshot['epoch']}, {snapshot['model']['weight'].sum().item():.5f}")
    destroy_process_group()


if __name__ == "__main__":
    main()
