"""torch.testing._internal.opinfo: what suites know about operators."""
