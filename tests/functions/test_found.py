"""What reading torch's answers to many small calls brought to light."""

from pathlib import Path

from tests.expressions import Expressions

test_as_torch_does = Expressions(__file__).test(Path(__file__).with_name("found.txt").read_text())
