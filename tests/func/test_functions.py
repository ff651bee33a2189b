"""Custom Functions under transforms, compared with torch."""

from pathlib import Path

from tests.func.judged import table

HERE = Path(__file__)
PRELUDE = "".join(
    HERE.with_name(name).read_text() for name in ("prelude.txt", "functions_prelude.txt")
)
test_as_torch_does = table(__file__, PRELUDE, HERE.with_name("functions.txt").read_text())
