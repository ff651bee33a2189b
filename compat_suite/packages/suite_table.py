"""The suites: where their tests lie, and what they need besides torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    """A test-suite in the source archive of a package."""

    name: str
    package: str
    version: str
    tests: tuple[str, ...] = ("tests",)
    also: str = ""
    """What else is imported, named in full: a resolver would install another torch beside the one to compare with."""
    ignore: tuple[str, ...] = ()
    """Parts of paths that are left out."""
    args: tuple[str, ...] = ()
    path: tuple[str, ...] = (".",)
    """Folders of the archive to import from."""
    env: Mapping[str, str] = field(default_factory=dict)
    install: bool = True
    """Whether the package is installed as well; its tests may ask for its metadata or compiled parts."""
    limit: int = 600
    """Seconds for a file."""
    note: str = ""
    """Why some tests differ."""

    @property
    def pinned(self) -> str:
        """For pip."""
        return f"{self.package}=={self.version}"


_GP = "jaxtyping wadler-lindig scikit-learn joblib threadpoolctl narwhals scipy mpmath"

SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "einops", "einops", "0.8.2", tests=("einops/tests",), also="parameterized", path=(),
            env={"EINOPS_TEST_BACKENDS": "numpy,torch"},
        ),
        Suite("linear_operator", "linear-operator", "0.6.1", tests=("test",), also=_GP),
    )
}  # fmt: skip
