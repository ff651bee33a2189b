"""A suite as people write them on torch.testing._internal: every kind of parametrization, and marks."""

# ruff: noqa: PT009 - it is unittest's way

import sys
import unittest

import torch
from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    slowTest,
    subtest,
)

KINDS = [torch.float32, torch.device("cpu"), None, [1], (1, 2), True, 1e-3, object(), int]


class Plain(TestCase):
    @parametrize("size", [1, 2])
    @parametrize("name", ["a", "b-c"])
    def test_stacked(self, size, name):
        self.assertEqual((type(size), type(name)), (int, str))

    @parametrize("x,y", [(1, 2.5), (3, -4.0)])
    def test_pairs(self, x, y):
        self.assertNotEqual(x, y)

    @parametrize("value", KINDS)
    def test_names(self, value):
        self.assertIn(value, KINDS)

    @parametrize(
        "x",
        [
            subtest(1, name="one"),
            subtest(2, name="two", decorators=[unittest.skip("not two")]),
            subtest([3]),
            subtest(4, decorators=[unittest.expectedFailure]),
        ],
    )
    def test_subtests(self, x):
        self.assertNotEqual(x, 4)

    @parametrize("x,y", [subtest((1, 2), name="given"), (3, 4)], name_fn=lambda x, y: f"made_{x}_{y}")
    def test_named(self, x, y):
        self.assertEqual(x + 1, y)

    @parametrize("x", range(2), name_fn=str)
    def test_of_a_range(self, x):
        self.assertLess(x, 2)

    @unittest.skip("all of them")
    @parametrize("x", [1, 2])
    def test_skipped(self, x):
        raise AssertionError

    @slowTest
    @parametrize("x", [1, 2])
    def test_slow(self, x):
        raise AssertionError


instantiate_parametrized_tests(Plain)


@instantiate_parametrized_tests
class Decorated(TestCase):
    @parametrize("x", [1, 2])
    def test_one(self, x):
        self.assertEqual(torch.initial_seed(), 1234)

    def test_other(self):
        pass


if __name__ == "__main__":
    sys.argv[1:] = [*sys.argv[1:], "-v"]
    run_tests()
