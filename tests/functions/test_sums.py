"""Sums with a scaled term, in half types, to the last bit."""

import pytest

from tests.expressions import table

test_as_torch_does = pytest.mark.long("text0", "text1", "text3")(table(__file__, "sums.txt"))
