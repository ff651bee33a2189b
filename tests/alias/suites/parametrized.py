"""A suite as people write them on torch.testing._internal: every kind of parametrization, device and mark."""

# ruff: noqa: PT009 - it is unittest's way

import sys
import unittest

import torch
from torch.testing._internal.common_device_type import (
    deviceCountAtLeast,
    dtypes,
    dtypesIfCPU,
    dtypesIfCUDA,
    expectedFailure,
    expectedFailureCPU,
    instantiate_device_type_tests,
    onlyAccelerator,
    onlyCPU,
    onlyCUDA,
    onlyNativeDeviceTypes,
    onlyOn,
    precisionOverride,
    skipCPUIf,
    skipCPUIfNoLapack,
    skipCUDAIf,
    skipIf,
    skipMeta,
    tol,
    toleranceOverride,
)
from torch.testing._internal.common_dtype import (
    all_types_and_complex_and,
    floating_and_complex_types,
    floating_types_and,
    integral_types,
)
from torch.testing._internal.common_utils import (
    TestCase,
    decorateIf,
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
    @decorateIf(unittest.skip("odd"), lambda arguments: arguments["x"] == 1)
    def test_decorated(self, x):
        self.assertEqual(x, 0)

    @unittest.skip("all of them")
    @parametrize("x", [1, 2])
    def test_skipped(self, x):
        raise AssertionError


instantiate_parametrized_tests(Plain)


@instantiate_parametrized_tests
class Decorated(TestCase):
    @parametrize("x", [1, 2])
    def test_one(self, x):
        self.assertEqual(torch.initial_seed(), 1234)

    def test_other(self):
        pass


class Devices(TestCase):
    where = "here"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = torch.ones(2)

    def setUp(self):
        super().setUp()
        self.drawn = torch.rand(1)

    def helper(self, device):
        return torch.ones(2, device=device)

    def test_plain(self, device):
        self.assertEqual(self.helper(device), self.made)
        self.assertEqual((self.device_type, self.where), ("cpu", "here"))
        self.assertEqual(self.get_all_devices(), [self.get_primary_device()])

    @dtypes(torch.float, torch.int64)
    def test_dtypes(self, device, dtype):
        self.assertEqual(torch.zeros(1, dtype=dtype, device=device).dtype, dtype)

    @dtypes((torch.float, torch.double), (torch.int, torch.half))
    def test_pairs_of_dtypes(self, device, dtypes):
        self.assertEqual(len(dtypes), 2)

    @dtypes(torch.float, torch.double)
    @parametrize("x", [1, 2])
    def test_both(self, device, dtype, x):
        self.assertIn(x, (1, 2))

    @parametrize("x", [1, 2])
    @dtypes(torch.float)
    def test_both_turned(self, device, dtype, x):
        self.assertEqual(dtype, torch.float)

    @dtypesIfCPU(torch.half)
    @dtypes(torch.float)
    def test_dtypes_of_cpu(self, device, dtype):
        pass

    @dtypesIfCUDA(torch.half)
    @dtypes(torch.float)
    def test_dtypes_of_cuda(self, device, dtype):
        pass

    @onlyCPU
    @onlyNativeDeviceTypes
    @skipMeta
    @skipCPUIfNoLapack
    @onlyOn(["cpu", "cuda"])
    @skipCUDAIf(True, "no")
    def test_runs(self, device):
        pass

    @onlyCUDA
    def test_only_cuda(self, device):
        raise AssertionError

    @onlyAccelerator
    def test_only_accelerators(self, device):
        raise AssertionError

    @skipCPUIf(True, "not on CPUs")
    def test_not_on_cpu(self, device):
        raise AssertionError

    @skipIf(True, "never")
    def test_never(self, device):
        raise AssertionError

    @slowTest
    def test_slow(self, device):
        raise AssertionError

    @expectedFailureCPU
    def test_has_to_fail(self, device):
        raise AssertionError

    @expectedFailure("cuda")
    def test_has_to_fail_elsewhere(self, device):
        pass

    @toleranceOverride({torch.float: tol(atol=1e-2, rtol=1e-1)})
    @dtypes(torch.float, torch.double)
    def test_tolerance(self, device, dtype):
        wide = dtype == torch.float
        self.assertEqual((self.precision, self.rel_tol), (1e-2, 1e-1) if wide else (0, 0))
        self.assertEqual(bool(wide), self.equal_to_a_tenth(dtype))

    def equal_to_a_tenth(self, dtype):
        try:
            self.assertEqual(torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype) * 1.05)
        except AssertionError:
            return False
        return True

    @precisionOverride({torch.float: 1e-2})
    @dtypes(torch.float, torch.double)
    def test_precision(self, device, dtype):
        self.assertEqual(self.precision, 1e-2 if dtype == torch.float else 0)

    @deviceCountAtLeast(1)
    def test_one_device(self, devices):
        self.assertEqual(devices, ["cpu"])

    @deviceCountAtLeast(2)
    def test_two_devices(self, devices):
        raise AssertionError


class OnlyThere(TestCase):
    def test_one(self, device):
        pass


class NotThere(TestCase):
    def test_one(self, device):
        pass


instantiate_device_type_tests(Devices, globals())
instantiate_device_type_tests(OnlyThere, globals(), only_for=("cpu",))
instantiate_device_type_tests(NotThere, globals(), except_for="cpu")


class Groups(TestCase):
    def test_groups(self):
        self.assertEqual(floating_types_and(torch.half), (torch.float32, torch.float64, torch.half))
        self.assertEqual(integral_types(), (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
        self.assertEqual(len(floating_and_complex_types()), 4)
        self.assertEqual(len(all_types_and_complex_and(torch.bool)), 10)


if __name__ == "__main__":
    sys.argv[1:] = [*sys.argv[1:], "-v"]
    run_tests()
