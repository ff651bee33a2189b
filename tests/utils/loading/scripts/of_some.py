import torch


class Ones(torch.utils.data.Dataset):
    def __getitem__(self, i):
        return torch.nn.functional.relu(torch.ones(2) * i - 1)

    def __len__(self):
        return 3
