"""torch.utils.tensorboard.summary: the records that a writer makes. They take arrays and numbers."""

from tensorboardX.summary import *  # noqa: F403
