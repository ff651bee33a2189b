"""torch.cpu.amp: torch.amp for one type of devices, as torch had it first."""

from .autocast_mode import autocast as autocast
from .grad_scaler import GradScaler as GradScaler
