"""Private names that programs read, against torch."""

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


@program
def weak_references_to_tensors_expire(m):
    x = m.ones(2)
    ref = m._C._WeakTensorRef(x)
    before = ref.expired()
    del x
    return before, ref.expired(), complaint(ref)[0]


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


def _names(events):
    return [e.name for e in events if not e.name.startswith(("[", "aten::"))]


@program
def stretches_of_a_profile_begin_and_end_by_operators(m):
    ops = m.ops.profiler
    with m.profiler.profile() as told:
        outer = ops._record_function_enter("outer")
        inner = ops._record_function_enter_new("inner", "its arguments")
        _ = m.ones(2) + 1
        ops._record_function_exit(inner)
        ops._record_function_exit(outer)
        _ = m.ones(2) * 2
        ops._record_function_exit._RecordFunction(ops._record_function_enter_new("alone"))
    parents = {e.name: e.cpu_parent and e.cpu_parent.name for e in told.events()}
    seen = [parents[n] for n in ("outer", "inner", "aten::add", "aten::mul", "alone")]
    return _names(told.events()), seen


@program
def operators_of_profiles_check_their_arguments(m):
    ops = m.ops.profiler
    calls = [lambda: ops._record_function_enter(3), lambda: ops._record_function_exit(3)]
    return [text.splitlines()[0] for call in calls for text in complaint(call)], [
        complaint(lambda: ops.no_such_thing)[0],
        str(ops._record_function_enter),
    ]
