"""functorch.experimental."""

from ...func import (
    functionalize as functionalize,
    hessian as hessian,
    jacfwd as jacfwd,
    jvp as jvp,
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
)
