"""The parts of torch.utils.benchmark, where torch has them."""
