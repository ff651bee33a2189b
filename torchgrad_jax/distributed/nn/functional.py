"""Collectives with gradients: each raises, as all of torch.distributed does here."""

from .. import _refuse

all_gather = all_reduce = all_to_all = all_to_all_single = broadcast = _refuse
gather = reduce = reduce_scatter = scatter = _refuse
