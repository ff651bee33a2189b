"""torch.backends.cpu."""


def get_cpu_capability() -> str:
    """ "DEFAULT": XLA chooses the processor's instructions by itself."""
    return "DEFAULT"
