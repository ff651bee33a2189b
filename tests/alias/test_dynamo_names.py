"""Names around torch.compile that look at it or mark code: torch._dynamo and torch._logging; against torch."""

import importlib
import logging

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint
from torchgrad_jax._dynamo.testing import CompileCounter, CompileCounterWithBackend

program = Programs()
test_same_as_torch = program.test()


def dynamo(m, name=""):
    return importlib.import_module(f"{m.__name__}._dynamo{name}")


@program
def marks_on_tensors(m):
    decorators, x = dynamo(m, ".decorators"), m.ones(2)
    marks = decorators.maybe_mark_dynamic, decorators.mark_dynamic
    wrong = [complaint(lambda f=f: f(x, "a")) for f in marks]
    wrong += [complaint(lambda f=f, t=t: f(t, 0))[0] for f in marks for t in ([1.0], 3)]
    return decorators.maybe_mark_dynamic(x, 0), dynamo(m).maybe_mark_dynamic(x, [0]), wrong


@program
def functions_that_stand_for_others(m):
    def original(a, b, /):
        return 3

    substitute = m.compiler.substitute_in_graph

    @substitute(original)
    def other(a, b, /):
        return a

    texts = [complaint(lambda: substitute(3))[1], complaint(lambda: substitute(lambda a: a)(3))[1]]
    mismatch = complaint(lambda: substitute(lambda a: a)(lambda b: b))[1].partition(" between")[0]
    found = other(1, 2), other.__torch_dynamo_original__ is original, other.__torch_dynamo_can_constant_fold_through__
    loose = substitute(lambda a: a, can_constant_fold_through=True, skip_signature_check=True)(lambda *b: b)
    return texts, mismatch, found, loose(7), other.__name__


@program
def functions_that_are_traced_as_they_are(m):
    trace = dynamo(m).nonstrict_trace
    return trace(lambda x: x * 2)(m.ones(2)), complaint(lambda: trace(3))


@program
def counters_of_programs(m):
    counter = dynamo(m, ".testing").CompileCounter()
    f = m.compile(lambda x: x.sin() + 1, backend=counter, dynamic=False)
    counts = []
    for x in (m.ones(2), m.ones(2), m.ones(3)):
        f(x)
        counts.append((counter.frame_count, counter.op_count))
    counter.clear()
    return counts, counter.frame_count, counter.op_count


@program
def levels_and_kinds_of_messages(m):
    logs = importlib.import_module(f"{m.__name__}._logging").set_logs
    try:
        return [
            complaint(lambda: logs(nonsense=True)),
            complaint(lambda: logs(dynamo="x")),
            complaint(lambda: logs(dynamo=True)),
            complaint(lambda: logs(all=3)),
            complaint(lambda: logs(recompiles=3)),
            complaint(lambda: logs(modules={"recompiles": True, "dynamo": logging.DEBUG})),
        ]
    finally:
        logs()


# --- what is otherwise here -----------------------------------------------------------------------


def test_a_function_that_can_be_compiled_is_one_program():
    found = tg._dynamo.explain(lambda x: x.sin() + 1)(tg.ones(2))
    assert (found.graph_count, found.graph_break_count, found.break_reasons) == (1, 0, [])
    assert found.ops_per_graph == [["torch.sin", "torch.add"]]
    assert found.op_count == 2
    text = str(found)
    assert text.startswith("Graph Count: 1\nGraph Break Count: 0\nOp Count: 2\nBreak Reasons:\n")
    assert "1 program; traced once" in text
    assert tg._dynamo.explain(lambda x: x * 2, tg.ones(2)).graph_count == 1
    assert tg._dynamo.explain(tg.nn.Linear(2, 2))(tg.ones(1, 2)).graph_count == 1


def test_a_function_that_cannot_be_compiled_says_why():
    found = tg._dynamo.explain(lambda x: x if x.sum().item() > 0 else x * 2)(tg.ones(2))
    assert (found.graph_count, found.op_count, found.graph_break_count) == (0, 0, 0)
    assert "values of a tensor are needed here" in found.break_reasons[0].reason
    assert "Break Reason 1:" in str(found)
    with pytest.raises(AssertionError, match="explain takes a function"):
        tg._dynamo.explain(3)  # pyright: ignore[reportArgumentType] - wrong on purpose


def test_an_error_of_the_function_itself_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        tg._dynamo.explain(lambda x: x * (1 // 0))(tg.ones(2))


def test_counters_for_modules_and_for_backends_by_name():
    counter = CompileCounterWithBackend("aot_eager")
    net = tg.compile(tg.nn.Linear(2, 2), backend=counter)
    net(tg.ones(1, 2))
    net(tg.ones(1, 2))
    assert (counter.backend, counter.frame_count, counter.graphs) == ("aot_eager", 1, [])
    with pytest.raises(tg._dynamo.exc.InvalidBackend):
        CompileCounterWithBackend("other")
    counter = CompileCounter()
    padded = tg.compile(lambda x, n_mask: x * n_mask, backend=counter, buckets={"n": (4, 8)}, shapes={"x": "n"})
    padded(tg.ones(3))
    padded(tg.ones(2))
    assert counter.frame_count == 1


def test_what_becomes_of_functions_that_cannot_be_compiled():
    def looks(x):
        return x if x.sum().item() > 0 else x * 2

    x = tg.ones(2)
    compiled = tg.compile(looks)
    with tg._dynamo.error_on_graph_break(False):
        assert tg.equal(compiled(x), x)
        with tg._dynamo.error_on_graph_break(True), pytest.raises(tg._dynamo.exc.Unsupported):
            tg.compile(looks)(x)
        assert tg.equal(compiled(x), x)
    with pytest.raises(tg._dynamo.exc.Unsupported):
        tg.compile(looks)(x)
    assert tg.equal(tg._dynamo.error_on_graph_break(False)(tg.compile(looks))(x), x)
    with tg._dynamo.error_on_graph_break(False), pytest.raises(tg._dynamo.exc.Unsupported):
        tg.compile(looks, fullgraph=True)(x)


def test_unbacked_sizes_are_said_to_have_no_effect_once():
    from torchgrad_jax._bridge.compile import explain

    explain._TOLD.discard("mark_unbacked()")
    with pytest.warns(UserWarning, match=r"mark_unbacked\(\) has no effect here"):
        tg._dynamo.decorators.mark_unbacked(tg.ones(2), 0)
    tg._dynamo.decorators.mark_unbacked(tg.ones(2), [0], strict=True)


def test_compiled_autograd_says_once_why_it_does_nothing():
    from torchgrad_jax._dynamo import compiled_autograd

    compiled_autograd._say_why.cache_clear()
    x = tg.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="backward pass"), compiled_autograd._enable(lambda gm: gm):
        (x * 2).sum().backward()
    with compiled_autograd._enable(lambda gm: gm), compiled_autograd._disable():
        (x * 2).sum().backward()
    assert x.grad is not None
    assert tg.equal(x.grad, tg.full((2,), 4.0))


@pytest.fixture
def logs():
    yield tg._logging.set_logs
    tg._logging.set_logs()


def test_traces_are_shown_while_they_are_asked_for(logs, capsys):
    f = tg.compile(lambda x: x * 3)
    f(tg.ones(2))
    logs(recompiles=True)
    f(tg.ones(3))
    assert "[recompiles]" in capsys.readouterr().err
    logs()
    f(tg.ones(4))
    assert capsys.readouterr().err == ""


def test_levels_reach_loggers_and_go_back(logs):
    logger = logging.getLogger("torchgrad_jax.compile")
    before = logger.level
    logs(dynamo=logging.INFO, modules={"own.logger": logging.DEBUG})
    assert logger.level == logging.INFO
    assert logging.getLogger("own.logger").level == logging.DEBUG
    with pytest.raises(ValueError, match="Unrecognized log level"):
        logs(dynamo="x")
    assert logger.level == logging.INFO
    logs()
    assert logger.level == before


def test_messages_that_there_are_not_are_named_once(logs):
    tg._logging._say_there_is_nothing.cache_clear()
    with pytest.warns(UserWarning, match=r"set_logs\(bytecode=...\) shows nothing here"):
        logs(bytecode=True)
    logs(bytecode=True, guards=False)


def test_a_warning_comes_once_for_each_logger(caplog):
    log = logging.getLogger("own.other")
    tg._logging.warning_once(log, "once %d", 1)
    tg._logging.warning_once(log, "once %d", 1)
    assert [r.getMessage() for r in caplog.records if r.name == "own.other"] == ["once 1"]
