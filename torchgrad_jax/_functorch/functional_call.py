"""`functional_call` and `stack_module_state` under an older name."""

from ..func import functional_call as functional_call, stack_module_state as stack_module_state

__all__ = ["functional_call", "stack_module_state"]
