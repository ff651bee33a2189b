"""Storages, conversions and other things that programs for torch use without thinking about them."""

import io
import warnings

import pytest

import torchgrad_jax as tg
from tests.differential import live_torch
from tests.expressions import table


@pytest.fixture(autouse=True, scope="module")
def _storages_warned_already():
    """Storages with a dtype warn once per process, whichever test comes first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in (tg, live_torch()):
            if module is not None:
                module.ones(1).storage()


test_as_torch_does = pytest.mark.long(
    "torch.cholesky(torch.eye(2))",
    "torch.linalg.inv(torch.zeros(2, 2))",
    "torch.igamma(torch.tensor([1]), torch.tensor([2.]))",
    "torch.cholesky(torch.ones(0, 5, 5), upper=True).stride()",
)(table(__file__, "storages_and_conversions.txt"))


def test_a_storage_that_others_share_is_not_resized():
    x = tg.ones(4)
    y = x[1:]
    with pytest.raises(NotImplementedError, match="several tensors share"):
        x.untyped_storage().resize_(0)
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_a_storage_is_not_cut_to_a_part_of_its_tensor():
    x = tg.ones(4)
    with pytest.raises(NotImplementedError, match="a part of what its tensor needs"):
        x.untyped_storage().resize_(8)


def test_a_slice_of_a_storage_would_share_memory():
    with pytest.raises(NotImplementedError, match="slice a tensor"):
        tg.UntypedStorage(4)[1:2]


def test_a_tensor_of_a_storage_without_memory_cannot_be_read_until_there_is_some():
    x = tg.ones(3)
    storage = x.untyped_storage()
    storage.resize_(0)
    with pytest.raises(RuntimeError, match="storage of 0 elements"):
        x.tolist()
    storage.resize_(12)
    x.copy_(tg.arange(3.0))
    assert x.tolist() == [0.0, 1.0, 2.0]


def test_the_older_file_format_needs_storages_that_have_a_class():
    with pytest.raises(NotImplementedError, match="zip format"):
        tg.save(tg.ones(1).untyped_storage(), io.BytesIO(), _use_new_zipfile_serialization=False)


def test_storages_of_a_checkpoint_are_those_of_its_tensors():
    file, x = io.BytesIO(), tg.arange(4.0)
    tg.save({"x": x, "storage": x.storage()}, file)
    file.seek(0)
    found = tg.load(file)
    found["storage"][0] = 9
    assert found["x"].tolist() == [9.0, 1.0, 2.0, 3.0]


def test_sizes_are_never_symbols():
    with pytest.raises(NotImplementedError, match="SymInt"):
        tg.SymInt(3)


def test_a_loop_keeps_the_number_of_its_values():
    with pytest.raises(RuntimeError, match="same number of values"):
        tg.while_loop(lambda i: i < 3, lambda i: (i, i), (tg.tensor(0),))


@pytest.mark.parametrize("name", ["set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion"])
def test_conversions_of_modules_work_in_one_way(name):
    future = getattr(tg, "__future__")  # noqa: B009 - the name would be mangled in a class
    getattr(future, name)(False)
    with pytest.raises(NotImplementedError, match=name):
        getattr(future, name)(True)


def test_the_configuration_names_what_runs_underneath():
    config = getattr(tg, "__config__")  # noqa: B009
    assert "jaxlib" in config.show()
    assert "thread" in config.parallel_info()


def test_an_exception_of_another_thread_is_raised_again_with_where_it_was():
    try:
        {}["missing"]
    except KeyError:
        wrapped = tg._utils.ExceptionWrapper(where="in a worker")
    with pytest.raises(KeyError, match=r"(?s)Caught KeyError in a worker.*missing"):
        wrapped.reraise()


def test_tensors_come_back_in_the_order_of_others():
    a, b, c = tg.ones(1), tg.ones(2).int(), tg.ones(3)
    found = tg._utils._reorder_tensors_as([b, a, c], [a, c, b])
    assert [id(t) for t in found] == [id(t) for t in (a, c, b)]
