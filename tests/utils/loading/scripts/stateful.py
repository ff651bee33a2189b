"""torchdata's loader, which saves its place in the middle of an epoch and goes on there."""

import warnings

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

warnings.simplefilter("ignore")


class Numbers(torch.utils.data.Dataset):
    calls = 0

    def __getitem__(self, i):
        self.calls += 1
        return i, torch.rand(1), self.calls

    def __len__(self):
        return 24

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


class Stream(torch.utils.data.IterableDataset):
    i = 0

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        worker, n = (info.id, info.num_workers) if info else (0, 1)
        while self.i < 20:
            self.i += 1
            if self.i % n == worker:
                yield self.i
        self.i = 0

    def state_dict(self):
        return {"i": self.i}

    def load_state_dict(self, state):
        self.i = state["i"]


def seen(batch):
    return [x.flatten().tolist() for x in batch] if isinstance(batch, list) else batch.tolist()


for make in (Numbers, Stream):
    for workers, kept in ((0, False), (2, False), (2, True)):
        torch.manual_seed(0)
        options = {"batch_size": 3, "num_workers": workers, "persistent_workers": kept}
        options.update({"shuffle": True} if make is Numbers else {})
        loader = StatefulDataLoader(make(), **options)
        batches = iter(loader)
        print(make.__name__, workers, kept, [seen(next(batches)) for _ in range(3)])
        state = loader.state_dict()
        print([seen(b) for b in batches])
        again = StatefulDataLoader(make(), **options)
        again.load_state_dict(state)
        print([seen(b) for b in again])
        print([seen(b) for b in loader])
