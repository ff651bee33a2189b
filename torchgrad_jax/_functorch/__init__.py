"""torch._functorch: where torch.func came from, under the names that older programs import."""

from .._core.errors.messages import missing as _missing

__getattr__ = _missing(__name__)
