"""torch.distributed.algorithms: what processes agree on besides single collectives."""

from .join import Join as Join, Joinable as Joinable, JoinHook as JoinHook
