"""torch.fx.passes.infra: functions from modules to modules, run one after another."""

from __future__ import annotations

from . import pass_base as pass_base, pass_manager as pass_manager
