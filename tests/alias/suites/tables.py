"""A suite over tables of operators, modules and optimizers, and over rows of its own."""

# ruff: noqa: PT009, PT027 - a suite on unittest
import threading
import unittest

import numpy as np
import torch
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.common_device_type import (
    OpDTypes,
    instantiate_device_type_tests,
    ops,
    skip,
    skipOps,
    tol,
    toleranceOverride,
    xfail,
)
from torch.testing._internal.common_methods_invocations import mask_not_all_zeros, op_db
from torch.testing._internal.common_modules import TrainEvalMode, module_db, modules
from torch.testing._internal.common_nn import NNTestCase, _test_module_empty_input, get_reduction
from torch.testing._internal.common_optimizers import TensorTracker, optim_db, optims
from torch.testing._internal.common_utils import (
    LazyVal,
    TestCase,
    TestGradients,
    bytes_to_scalar,
    chunk_list,
    copy_func,
    first_sample,
    get_function_arglist,
    run_concurrently,
    run_tests,
)
from torch.testing._internal.opinfo.core import (
    BinaryUfuncInfo,
    DecorateInfo,
    ErrorInput,
    OpInfo,
    ReductionOpInfo,
    SampleInput,
    UnaryUfuncInfo,
)


def named(*names):
    """Rows of op_db by name."""
    return [op for op in op_db if op.name in names and not op.variant_test_name]


def doubled(op, device, dtype, requires_grad, **kwargs):
    for shape in ((2, 3), (), (0,)):
        x = torch.testing.make_tensor(shape, device=device, dtype=dtype, requires_grad=requires_grad)
        yield SampleInput(x, 2.0).with_metadata(name=str(shape))


def wrong(op, device, **kwargs):
    yield ErrorInput(
        SampleInput(torch.ones(2, device=device), torch.ones(3, device=device)), error_regex="The size of tensor a"
    )


OWN = [
    OpInfo(
        "mul",
        variant_test_name="own",
        ref=np.multiply,
        sample_inputs_func=doubled,
        error_inputs_func=wrong,
        dtypes=(torch.float32, torch.float64, torch.int64),
        backward_dtypes=(torch.float64,),
        supports_forward_ad=True,
        aliases=("multiply",),
        decorators=(
            DecorateInfo(unittest.skip("asked for"), "TestOwn", "test_left_out", dtypes=(torch.int64,)),
            DecorateInfo(toleranceOverride({torch.float32: tol(1.0, 0.0)}), "TestOwn", "test_tolerance"),
        ),
        skips=(DecorateInfo(unittest.expectedFailure, "TestOwn", "test_fails"),),
    ),
    UnaryUfuncInfo("sqrt", domain=(0, None), dtypes=(torch.float32, torch.float64), ref=np.sqrt),
    BinaryUfuncInfo("maximum", dtypes=(torch.float32, torch.int64), ref=np.maximum),
    ReductionOpInfo("amax", dtypes=(torch.float32,), ref=np.amax, nan_policy="propagate"),
]


class TestOwn(TestCase):
    @ops(OWN)
    def test_samples(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            out = op(sample.input, *sample.args, **sample.kwargs)
            self.assertEqual(op.method_variant(sample.input, *sample.args, **sample.kwargs), out)
            n = sample.noncontiguous()
            self.assertEqual(op(n.input, *n.args, **n.kwargs), out)

    @ops(OWN[:1])
    def test_left_out(self, device, dtype, op):
        self.assertIn(op.aliases[0].name, ("multiply",))

    @ops(OWN[:1], dtypes=OpDTypes.any_one)
    def test_fails(self, device, dtype, op):
        self.fail("as expected")

    @ops(OWN[:1], allowed_dtypes=(torch.float32,))
    def test_tolerance(self, device, dtype, op):
        self.assertEqual(torch.tensor([1.0]), torch.tensor([1.9]))

    @ops(OWN, dtypes=OpDTypes.none)
    def test_names(self, device, op):
        self.assertIn(op.formatted_name, ("mul_own", "sqrt", "maximum", "amax"))
        self.assertEqual(op.full_name.replace(".", "_"), op.formatted_name)

    @ops(OWN[:1], dtypes=OpDTypes.supported_backward)
    def test_backward_dtypes(self, device, dtype, op):
        self.assertEqual(dtype, torch.float64)
        self.assertTrue(first_sample(self, op.sample_inputs(device, dtype, True)).input.requires_grad)

    @ops(OWN[:1], dtypes=(torch.float32,))
    def test_errors(self, device, dtype, op):
        for e in op.error_inputs(device):
            self.assertIsInstance(e.sample_input, SampleInput)
            with self.assertRaisesRegex(e.error_type, e.error_regex):
                op(e.sample_input.input, *e.sample_input.args)

    @ops(OWN[:1], dtypes=(torch.float32,))
    def test_summary(self, device, dtype, op):
        sample = first_sample(self, op.sample_inputs(device, dtype))
        self.assertEqual(
            sample.summary(),
            'SampleInput(input=Tensor[size=(2, 3), device="cpu", dtype=torch.float32], args=(2.0), kwargs={}, '
            "broadcasts_input=False, name='(2, 3)')",
        )
        self.assertIsInstance(sample.numpy().input, np.ndarray)
        self.assertEqual(sample.transform(lambda v: v).name, "(2, 3)_transformed")


class TestTable(TestGradients):
    @ops(named("sin", "cumsum", "matmul"), allowed_dtypes=(torch.float64, torch.complex128))
    def test_gradients(self, device, dtype, op):
        self._skip_helper(op, device, dtype)
        self._check_helper(device, dtype, op, op.get_op(), "gradcheck", check_batched_grad=False, check_forward_ad=True)

    @ops(named("exp", "tril"), allowed_dtypes=(torch.float64,))
    def test_inplace_gradients(self, device, dtype, op):
        self._grad_test_helper(device, dtype, op, self._get_safe_inplace(op.get_inplace()), check_batched_grad=False)

    @ops(named("add", "cat", "linalg.det"), allowed_dtypes=(torch.float32,))
    def test_out(self, device, dtype, op):
        sample = first_sample(self, op.sample_inputs(device, dtype))
        want = op(sample.input, *sample.args, **sample.kwargs)
        out = torch.empty_like(want)
        self.assertIs(op(sample.input, *sample.args, **sample.kwargs, out=out), out)
        self.assertEqual(out, want)

    @skipOps({xfail("exp"), skip("sin", dtypes=(torch.float32,))})
    @ops(named("exp", "sin", "cos"), allowed_dtypes=(torch.float32, torch.float64))
    def test_marked(self, device, dtype, op):
        self.assertNotEqual(op.name, "exp")
        self.assertFalse(op.name == "sin" and dtype == torch.float32)

    @ops(autograd_function_db[:1], allowed_dtypes=(torch.float64,))
    def test_functions(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype, requires_grad=True):
            self.assertTrue(torch.autograd.gradcheck(op, (sample.input, *sample.args)))


class TestModules(TestCase):
    @modules([m for m in module_db if m.name in ("nn.Linear", "nn.BatchNorm1d")], allowed_dtypes=(torch.float32,))
    def test_forward(self, device, dtype, module_info, training):
        for given in module_info.module_inputs_func(
            module_info, device=device, dtype=dtype, requires_grad=False, training=training
        ):
            made = module_info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
            made.to(device).to(dtype).train(training)
            self.assertIs(made(*given.forward_input.args, **given.forward_input.kwargs).dtype, dtype)

    @modules(
        [m for m in module_db if m.name == "nn.BatchNorm1d"],
        allowed_dtypes=(torch.float64,),
        train_eval_mode=TrainEvalMode.eval_only,
    )
    def test_eval(self, device, dtype, module_info, training):
        self.assertFalse(training)


class TestOptimizers(TestCase):
    @optims([o for o in optim_db if o.optim_cls.__name__ in ("SGD", "Adam", "LBFGS")], dtypes=[torch.float32])
    def test_step(self, device, dtype, optim_info):
        for given in optim_info.optim_inputs_func(device=device):
            w = torch.nn.Parameter(torch.ones(2, device=device, dtype=dtype))
            optimizer = optim_info.optim_cls([w], **given.kwargs)
            tracker = TensorTracker()
            tracker.add(w)

            def closure(w=w, optimizer=optimizer):
                optimizer.zero_grad()
                loss = (w * w).sum()
                loss.backward()
                return loss

            optimizer.step(closure)
            self.assertNotEqual(w.detach(), torch.ones(2))
            tracker.pop_check_set(torch.ones(2), self)
            self.assertTrue(tracker.all_popped())

    @optims([o for o in optim_db if o.optim_cls.__name__ in ("SGD", "Adam")], dtypes=[torch.float32])
    def test_errors(self, device, dtype, optim_info):
        for e in optim_info.optim_error_inputs_func(device=device, dtype=dtype):
            given = e.optimizer_error_input
            params = [torch.nn.Parameter(torch.ones(2))] if given.params is None else given.params
            if e.error_type is UserWarning:
                with self.assertWarnsRegex(UserWarning, e.error_regex):
                    optim_info.optim_cls(params, **given.kwargs)
            elif e.error_type is not None and str(e.error_on).endswith("CONSTRUCTION_ERROR"):
                with self.assertRaisesRegex(e.error_type, e.error_regex):
                    optim_info.optim_cls(params, **given.kwargs)


class TestNN(NNTestCase):
    def _forward(self, module, input):
        return module(input)

    def test_no_elements(self):
        _test_module_empty_input(self, torch.nn.ReLU(), torch.rand(0, 3))
        self.assertEqual(get_reduction(torch.nn.MSELoss(reduction="sum")), "sum")


class TestHelpers(TestCase):
    def test_small_ones(self):
        self.assertEqual(chunk_list([1, 2, 3, 4, 5], 2), [[1, 3, 5], [2, 4]])
        self.assertEqual(get_function_arglist(lambda a, b=1, *c, d=2: 0)[:2], ["a", "b"])
        self.assertEqual(copy_func(named)("sin")[0].name, "sin")
        self.assertEqual(bytes_to_scalar([0, 0, 128, 63], torch.float32, "cpu"), torch.tensor(1.0))
        self.assertTrue(mask_not_all_zeros((2, 3)).any())
        asked = []
        lazy = LazyVal(lambda: asked.append(1) or True)
        self.assertTrue(lazy and lazy)
        self.assertEqual(asked, [1])

    def test_threads(self):
        seen = []
        run_concurrently(lambda: seen.append(threading.current_thread().name), num_threads=3)
        self.assertEqual(len(set(seen)), 3)


instantiate_device_type_tests(TestOwn, globals())
instantiate_device_type_tests(TestTable, globals())
instantiate_device_type_tests(TestModules, globals())
instantiate_device_type_tests(TestOptimizers, globals())

if __name__ == "__main__":
    run_tests()
