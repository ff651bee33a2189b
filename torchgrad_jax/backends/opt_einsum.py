"""torch.backends.opt_einsum: products are contracted from left to right, as torch does without the package."""

enabled = False
strategy = None


def is_available() -> bool:
    """False: the order of contractions is not searched for."""
    return False


def get_opt_einsum() -> None:
    """None."""
