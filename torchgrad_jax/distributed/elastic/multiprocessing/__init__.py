"""torch.distributed.elastic.multiprocessing: see `errors`."""

from __future__ import annotations

import signal

from ...._core.errors.messages import missing as _missing


class SignalException(Exception):
    """The launcher got a signal that ends it and the processes that it started.

    Args:
        msg: what is said.
        sigval: the signal.
    """

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


__all__ = ["SignalException"]

__getattr__ = _missing(__name__)
