"""A suite of tests in the manner of unittest and of pytest, and what TestCase takes for equal."""

# ruff: noqa: PT009, PT027 - it is unittest's way

import collections
import json
import os
import unittest

import numpy as np
import pytest
import torch
from torch.testing._internal.common_utils import (
    TEST_CUDA,
    TemporaryFileName,
    TestCase,
    freeze_rng_state,
    gradcheck,
    gradgradcheck,
    run_tests,
    set_default_dtype,
    skipIfNoLapack,
    skipIfTorchDynamo,
)


class Unit(TestCase):
    def setUp(self):
        super().setUp()
        self.x = torch.randn(3)

    def test_same_numbers_each_time(self):
        torch.manual_seed(1234)
        self.assertEqual(self.x, torch.randn(3))

    def test_errors(self):
        with self.assertRaisesRegex(RuntimeError, "grad can be implicitly created"):
            (self.x.requires_grad_() * 2).backward()
        with self.assertWarnsRegex(UserWarning, "leaf Tensor"):
            (self.x * 2).grad
        self.assertRaises(RuntimeError, lambda: torch.ones(2) @ torch.ones(3))

    def test_gradients(self):
        x = torch.randn(3, dtype=torch.double, requires_grad=True)
        self.assertTrue(gradcheck(torch.sin, (x,)))
        self.assertTrue(gradgradcheck(torch.sin, (x,), check_batched_grad=False))
        with self.assertRaises(RuntimeError):
            gradcheck(lambda x: x.detach() * x, (x,))

    def test_parts(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertEqual(i, i)

    @skipIfNoLapack
    @skipIfTorchDynamo("never the case")
    def test_marks(self):
        self.assertExpectedInline(str(torch.linalg.det(torch.eye(2))), "tensor(1.)")

    def test_surroundings(self):
        with set_default_dtype(torch.double):
            self.assertEqual(torch.ones(1).dtype, torch.double)
        self.assertEqual(torch.get_default_dtype(), torch.float)
        with freeze_rng_state():
            a = torch.rand(1)
        self.assertEqual(a, torch.rand(1))
        with TemporaryFileName(suffix=".pt") as name:
            torch.save(a, name)
            self.assertEqual(torch.load(name), a)

    @unittest.expectedFailure
    def test_has_to_fail(self):
        self.assertEqual(1, 2)

    @unittest.skipIf(TEST_CUDA, "for the CPU")
    def test_not_skipped(self):
        pass


class Mine:
    def __eq__(self, other):
        return isinstance(other, Mine)

    def __repr__(self):
        return "Mine()"

    __hash__ = None


X = torch.ones(2)
NAN = float("nan")
PAIRS = [
    (1, 2), (1, 1.0), (1.0, 1.0 + 1e-9), (1.0, 1.0 + 1e-6), (1.0, 1.1), (X, X * 2), (X, X.double()), (X, [1.0, 1.0]),
    ([1.0, 1.0], X), (X, [1, 1]), (X, 1), (torch.tensor(1.0), 1), (torch.tensor([1.0]), 1), (1, torch.tensor(1)),
    (torch.tensor(1.0), torch.tensor(1.001)), (X, np.ones(2, dtype=np.float32)), (X, np.ones(2)),
    (np.ones(2), np.ones(2) * 2), ("a", "a"), ("a", "b"), ({"a": 1}, {"a": 2}), ({"a": 1}, {"b": 1}),
    (collections.OrderedDict(a=1), {"a": 1}), ({1, 2}, {2, 1}), ({1}, {2}), ({1, 2}, {1}), ([1, 2], [1, 3]),
    ([1, 2], (1, 2)), ([1], [1, 2]), (None, None), (None, 1), (X, None), (True, True), (True, False),
    (True, torch.tensor(True)), (torch.tensor(True), False), (int, int), (int, float), (NAN, NAN),
    (torch.tensor(NAN), torch.tensor(NAN)), (torch.float32, torch.float32), (torch.float32, torch.float64),
    (torch.Size([1, 2]), (1, 2)), (torch.Size([1]), [2]), (X, X[:1]), (1, "a"), (object, 3), (1 + 1j, 1 + 1j),
    (1j, 2j), (X.cfloat(), X), (torch.tensor([1, 2]), torch.tensor([1, 3])), (True, 1),
    (torch.device("cpu"), torch.device("cpu")), (torch.device("cpu"), "cpu"), ([X, X], [X, X * 2]),
    ({"a": [X]}, {"a": [X + 1]}), (range(3), [0, 1, 2]), (np.float32(1), 1.0), (np.int64(3), 3), (np.bool_(True), True),
    (torch.ones(2, 2).t(), torch.ones(2, 2)), (torch.nn.Parameter(X), X), (torch.tensor([]), []), (b"a", b"b"),
    (slice(1), slice(1)), ((X, 1, "a"), (X, 1, "b")), (X.half(), X.half() + 1e-3), (torch.tensor(2), torch.tensor(2.0)),
    (frozenset([1]), {1}), (X.unbind(), [1, 1]), (1.0, torch.tensor([1.0, 1.0])), (0.1 + 0.2, 0.3),
    (torch.tensor(0.1), 0.1), (X.int(), X.int() * 2), (float("inf"), float("inf")), (10**20, 10**20), (Mine(), Mine()),
    (Mine(), 3), ("a\nb", "a\nc"), (torch.bfloat16, "a"), (X.bfloat16(), X.bfloat16() * 1.5),
]  # fmt: skip
OPTIONS = [
    ({"atol": 1, "rtol": 0}, 1, 1.5),
    ({"atol": 1}, 1, 1.5),
    ({"rtol": 1}, 1, 1.5),
    ({"exact_dtype": False}, X, X.double()),
    ({"equal_nan": False}, NAN, NAN),
    ({"msg": "said"}, 1, 2),
    ({"msg": lambda text: "<" + text + ">"}, 1, 2),
    ({"exact_stride": True}, torch.ones(2, 2).t(), torch.ones(2, 2)),
    ({"exact_layout": True}, X, X),
    ({"exact_device": True}, X, X),
    ({"atol": 3, "rtol": 0}, X, X * 3),
    ({"msg": "said"}, X, X + 1),
    ({"exact_dtype": False}, torch.tensor(2), torch.tensor(2.0)),
    ({"foo": 1}, X, X),
]


class Equality(TestCase):
    def answer(self, compare, *args, **kwargs):
        try:
            compare(*args, **kwargs)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "equal"

    def test_all(self):
        answers = [self.answer(self.assertEqual, x, y) for x, y in PAIRS]
        answers += [self.answer(self.assertEqual, x, y, **kwargs) for kwargs, x, y in OPTIONS]
        answers += [self.answer(self.assertNotEqual, x, y) for x, y in PAIRS]
        if "EQUALITY" in os.environ:
            with open(os.environ["EQUALITY"], "w") as file:
                json.dump(answers, file)


def test_plain():
    torch.testing.assert_close(torch.ones(2), torch.ones(2))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_marked(kind):
    assert torch.zeros(1, dtype=kind).dtype is kind


@pytest.fixture
def three():
    return torch.arange(3.0)


class TestWithFixtures:
    def test_sum(self, three):
        assert three.sum() == 3


def test_raises():
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(1).backward()


if __name__ == "__main__":
    run_tests()
