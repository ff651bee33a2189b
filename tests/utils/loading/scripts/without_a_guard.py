"""A script that does not ask whether it is run or imported: what it defines goes to workers, its lines do not run there."""

import os
import sys
from collections import namedtuple
from dataclasses import dataclass

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

print("once", file=sys.stderr)
SCALE = torch.tensor(3.0)
Pair = namedtuple("Pair", "a b")


@dataclass
class Example:
    x: torch.Tensor
    pid: int

    def scaled(self):
        return self.x * SCALE


class Examples(Dataset):
    def __getitem__(self, i):
        return Example(torch.full((2,), float(i)) * SCALE, os.getpid()), Pair(i, [lambda: i])

    def __len__(self):
        return 4


def collate(items):
    return [e for e, _ in items], [p for _, p in items]


for examples, pairs in DataLoader(Examples(), batch_size=2, num_workers=2, collate_fn=collate):
    print([type(e) is Example for e in examples], [e.scaled().tolist() for e in examples])
    print([type(p) is Pair for p in pairs], [p.b[0]() for p in pairs], all(e.pid != os.getpid() for e in examples))


def work(inbox, outbox, ready):
    ready.set()
    while (x := inbox.get()) is not None:
        outbox.put((x @ x, type(x).__name__))


inbox, outbox, ready = mp.Queue(), mp.Queue(), mp.Event()
process = mp.Process(target=work, args=(inbox, outbox, ready))
process.start()
for n in (2, 50):
    inbox.put(torch.ones(n, n))
print([[x.sum().item(), name] for x, name in (outbox.get(), outbox.get())], ready.is_set())
inbox.put(None)
process.join()
print(process.exitcode)


def fail(lock):
    with lock:
        raise SystemExit(5)


process = mp.Process(target=fail, args=(mp.Lock(),), daemon=True)
process.start()
process.join(60)
print(process.exitcode, process.is_alive())
