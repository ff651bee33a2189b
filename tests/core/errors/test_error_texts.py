"""What is said of operands that do not fit, of arguments of nodes, and of objects that Python code may not make."""

from __future__ import annotations

from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()

KINDS = ("bfloat16", "float16", "float64", "int64", "complex64", "bool")


@program
def sums_of_products_name_the_operands_that_differ(m):
    found, one = [], m.ones(2, 2)
    for kind in KINDS:
        x = m.ones(2, 2, dtype=getattr(m, kind))
        found += [
            complaint(lambda x=x: m.nn.functional.linear(x, one, one[0])),
            complaint(lambda x=x: m.nn.Linear(2, 2)(x[0])),
            complaint(lambda x=x: m.addmm(x, one, one)),
            complaint(lambda x=x: m.addmm(one, x, one)),
            complaint(lambda x=x: m.addmm(one, one, x)),
            complaint(lambda x=x: m.addmm(one, x, x)),
            complaint(lambda x=x: m.addbmm(one, x[None], one[None])),
            complaint(lambda x=x: one.clone().addmm_(x, one)),
        ]
    return found


@program
def convolutions_name_what_differs_from_the_input(m):
    found, f = [], m.nn.functional
    convolutions = (
        (f.conv1d, 3),
        (f.conv2d, 4),
        (f.conv3d, 5),
        (f.conv_transpose1d, 3),
        (f.conv_transpose2d, 4),
        (f.conv_transpose3d, 5),
    )

    def said(conv: Any, *args: Any) -> Any:
        try:
            y = conv(*args)
        except Exception as e:
            return [type(e).__name__, str(e)]
        return y.dtype, y.flatten()

    for conv, n in convolutions:
        one, b = m.ones((1,) * n), m.ones(1)
        for kind in KINDS:
            if kind in ("bfloat16", "float16"):  # torch's text tells what the processor computes in
                continue
            x, c = one.to(getattr(m, kind)), b.to(getattr(m, kind))
            found.append(
                [
                    said(conv, x, one),
                    said(conv, x, one, b),
                    said(conv, x, x, b),
                    said(conv, one, x),
                    said(conv, one, one, c),
                ]
            )
    return found


@program
def rows_are_renormalised_at_whole_numbers(m):
    found, f, table = [], m.nn.functional, m.ones(3, 2)
    for kind in ("float32", "bool", "int16", "bfloat16", "int32"):
        at = m.tensor([1]).to(getattr(m, kind))
        found += [
            complaint(lambda at=at: f.embedding(at, table, max_norm=1.0)),
            complaint(lambda at=at: f.embedding(at, table)),
        ]
    for weight in (m.ones(3), m.ones(3, 2, 2)):
        found.append(complaint(lambda w=weight: f.embedding(m.tensor([1]), w, max_norm=1.0)))
    return found


@program
def probabilities_are_printed_as_in_c(m):
    x, found = m.ones(2, 3), []
    for name in ("dropout", "dropout_", "alpha_dropout", "feature_dropout", "feature_alpha_dropout_"):
        fn = getattr(m, name)
        found += [complaint(lambda p=p, fn=fn: fn(x, p, True)) for p in (2.0, -1, 1.5, 1e10, 123456789.0, float("nan"))]
    return found


@program
def hooks_of_nodes_are_registered_by_position(m):
    x = m.ones(2, requires_grad=True)
    node = (x * 1).grad_fn
    found = []
    for n in (node, node.next_functions[0][0]):
        for register in (n.register_hook, n.register_prehook, n._set_sequence_nr):
            found += [
                complaint(lambda register=register: register()),
                complaint(lambda register=register: register(1, 2)),
                complaint(lambda register=register: register(fn=len)),
            ]
    return found


@program
def powers_take_no_modulus(m):
    x = m.ones(2)
    return [
        complaint(lambda: pow(x, 2, 3)),
        complaint(lambda: pow(2, x, 3)),
        complaint(lambda: pow(x, x, x)),
        complaint(lambda: pow(x, "a", 3)),
        complaint(lambda: pow(x, 2, 3.0)),
        pow(x, 2, None),
        x.__pow__(2, 3) is NotImplemented,
        x.__rpow__(2, 3) is NotImplemented,
        x.__ipow__(2, 3) is NotImplemented,
    ]


@program
def what_python_code_may_not_make_or_ask_for(m):
    return [
        complaint(m._C._autograd.SavedTensor),
        complaint(lambda: m.amp.custom_fwd(device_type=3)),
        complaint(lambda: m.amp.custom_bwd(device_type=None)),
        complaint(lambda: m.amp.custom_fwd(len, device_type=3)),
        m.utils.checkpoint.CheckpointError.__module__.rpartition("torch")[2].partition(".")[2],
    ]


@program
def a_node_is_taken_away_by_setting_it_to_none(m):
    x = m.ones(2, requires_grad=True)
    found = []
    for value in (None, 1, m.ones(1), (x * 1).grad_fn):
        for view in (False, True):
            y = x * 2
            y = y[:1] if view else y
            found.append(
                [
                    complaint(lambda y=y, value=value: setattr(y, "_grad_fn", value)),
                    y.grad_fn is None,
                    y.requires_grad,
                    y.is_leaf,
                    y._version,
                ]
            )
    y = x * 2
    part = y[:1]
    found.append([complaint(lambda: delattr(y, "_grad_fn")), type(y._grad_fn).__name__])
    y.register_hook(lambda g: g * 3)
    y._grad_fn = None
    found.append([part.requires_grad, y.requires_grad])
    y.requires_grad_()
    y.sum().backward()
    x._grad_fn = None
    return found, y.grad, x.requires_grad, x.is_leaf
