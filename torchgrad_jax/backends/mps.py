"""torch.backends.mps: Apple's GPUs are not supported."""


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False: asked before the backend is used."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False: asked before the backend is used."""
    return False
