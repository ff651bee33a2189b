"""torch._higher_order_ops: loops and branches as functions, of which one program can be made."""

from .._core.errors.messages import missing as _missing
from .._functions.symbolic import cond as cond, while_loop as while_loop
from ._map import map as map
from .associative_scan import associative_scan as associative_scan
from .scan import scan as scan

__getattr__ = _missing(__name__)
