"""torch.backends: flags of libraries that XLA has no use for. They can be read and set, and change nothing."""

from . import (
    cpu as cpu,
    cuda as cuda,
    cudnn as cudnn,
    mkl as mkl,
    mkldnn as mkldnn,
    mps as mps,
    openmp as openmp,
    opt_einsum as opt_einsum,
)

fp32_precision = "none"


def flags_frozen() -> bool:
    """False: flags may be set anywhere, and not only by their context managers."""
    return False
