"""Errors of several processes, named as in torch.distributed."""

from __future__ import annotations


class DistError(RuntimeError):
    """Something between processes went wrong."""

    __module__ = "torch.distributed"


class DistBackendError(DistError):
    """A process did not answer, left, or called another collective."""

    __module__ = "torch.distributed"


class DistNetworkError(DistError):
    """A connection could not be made."""

    __module__ = "torch.distributed"


class DistStoreError(DistError):
    """A store did not get a key in time."""

    __module__ = "torch.distributed"
