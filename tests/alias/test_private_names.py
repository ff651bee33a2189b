"""Private names that programs read, against torch."""

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


@program
def gpus_are_not_prepared_where_there_are_none(m):
    return m.cuda._initialized is m.cuda.is_initialized()


@program
def options_of_the_linear_cross_entropy_are_one_class(m):
    return m.nn.LinearCrossEntropyOptions is m.nn.modules.LinearCrossEntropyOptions


@program
def distinct_elements_come_in_pairs(m):
    nan = float("nan")
    values = [m.tensor([3, 1, 3]), m.tensor([[2.0, nan], [nan, 1.0]]), m.empty(0, 2), m.tensor([True, False, True])]
    return [[m._unique(v), m._unique(v, True, True), m._unique(v, sorted=False, return_inverse=True)] for v in values]


@program
def distinct_elements_have_a_node_without_a_derivative(m):
    found, inverse = m._unique(m.tensor([3.0, 1.0, 3.0], requires_grad=True), True, True)
    return found.grad_fn, inverse, complaint(found.sum().backward)


@program
def distinct_elements_refuse_complex_numbers(m):
    return complaint(lambda: m._unique(m.tensor([1j])))


@program
def dynamo_has_a_switch_for_long_errors(m):
    config = m._dynamo.config
    before = config.verbose
    with config.patch(verbose=True):
        inside = config.verbose
    config.verbose = before
    return before, inside, config.verbose


@program
def operators_stand_in_lists_whoever_calls_them(m):
    """Policies of checkpoints and tables of converters name operators of other devices, of sizes and of checks."""
    kinds = "flash", "efficient", "cudnn"
    names = [*(f"_scaled_dot_product_{kind}_attention.default" for kind in kinds), "sym_size.int", "sym_numel.default"]
    found = []
    for name in [*names, "_local_scalar_dense.default", "_assert_async.msg", "_assert_scalar.default"]:
        packet, overload = name.split(".")
        found.append(hasattr(getattr(m.ops.aten, packet), overload))
    return found


@program
def loaders_and_datasets_have_a_name_for_their_type_of_samples(m):
    data = m.utils.data
    kinds = [data.dataset._T_co, data.sampler._T_co, data.dataloader._T_co]
    return [kind.__covariant__ for kind in kinds], m.utils.data.DataLoader[kinds[0]].__args__ == (kinds[0],)
