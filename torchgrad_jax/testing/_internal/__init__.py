"""What test suites written for torch import from torch.testing._internal: the names most used, no more."""
