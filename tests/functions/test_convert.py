"""Conversions, sizes and storages, older constructors, dtype questions and settings, compared with torch."""

from pathlib import Path

from tests.expressions import Expressions

test_as_torch_does = Expressions(__file__).test(Path(__file__).with_name("convert.txt").read_text())
