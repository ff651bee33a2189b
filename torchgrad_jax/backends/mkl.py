"""torch.backends.mkl: not used here."""


def is_available() -> bool:
    """False: XLA has kernels of its own."""
    return False
