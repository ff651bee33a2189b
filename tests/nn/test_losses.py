"""Loss modules: results and gradients; compared with torch."""

from functools import partial

import pytest

from tests.programs import Programs, complaint, first_line

from .programs import attempt, gradients, numbers, quietly

CLASSES = [1, 0, 3]


def classes(m):
    return m.tensor(CLASSES)


def signs(m):
    return m.tensor([1.0, -1.0, 1.0], dtype=m.float64)


def probabilities(m):
    return numbers(m, 3, 4).abs() * 0.9 + 0.05


# Name, constructor, inputs after the first, the first one.
ROWS = [
    ("L1Loss", lambda m: m.nn.L1Loss(), lambda m: [numbers(m, 3, 4) * 2]),
    ("MSELoss", lambda m: m.nn.MSELoss(reduction="sum"), lambda m: [numbers(m, 3, 4) * 2]),
    ("NLLLoss", lambda m: m.nn.NLLLoss(), lambda m: [classes(m)]),
    ("NLLLoss-weighted", lambda m: m.nn.NLLLoss(probabilities(m)[0], ignore_index=0), lambda m: [classes(m)]),
    ("PoissonNLLLoss", lambda m: m.nn.PoissonNLLLoss(full=True), lambda m: [probabilities(m) * 3]),
    ("GaussianNLLLoss", lambda m: m.nn.GaussianNLLLoss(), lambda m: [numbers(m, 3, 4) * 2, probabilities(m)]),
    ("KLDivLoss", lambda m: m.nn.KLDivLoss(reduction="batchmean"), lambda m: [probabilities(m)]),
    ("KLDivLoss-log", lambda m: m.nn.KLDivLoss(reduction="sum", log_target=True), lambda m: [numbers(m, 3, 4) * 2]),
    ("BCELoss", lambda m: m.nn.BCELoss(probabilities(m)[0]), lambda m: [probabilities(m)], probabilities),
    (
        "BCEWithLogitsLoss",
        lambda m: m.nn.BCEWithLogitsLoss(pos_weight=probabilities(m)[0]),
        lambda m: [probabilities(m)],
    ),
    ("HingeEmbeddingLoss", lambda m: m.nn.HingeEmbeddingLoss(0.5), lambda m: [signs(m)[:, None].expand(3, 4)]),
    ("MultiLabelMarginLoss", lambda m: m.nn.MultiLabelMarginLoss(), lambda m: [m.tensor([[1, 0, -1, -1]] * 3)]),
    ("SmoothL1Loss", lambda m: m.nn.SmoothL1Loss(beta=0.5), lambda m: [numbers(m, 3, 4) * 2]),
    ("HuberLoss", lambda m: m.nn.HuberLoss(delta=0.5), lambda m: [numbers(m, 3, 4) * 2]),
    ("SoftMarginLoss", lambda m: m.nn.SoftMarginLoss(), lambda m: [signs(m)[:, None].expand(3, 4)]),
    ("CrossEntropyLoss", lambda m: m.nn.CrossEntropyLoss(label_smoothing=0.1), lambda m: [classes(m)]),
    ("CrossEntropyLoss-soft", lambda m: m.nn.CrossEntropyLoss(probabilities(m)[0]), lambda m: [probabilities(m)]),
    ("MultiLabelSoftMarginLoss", lambda m: m.nn.MultiLabelSoftMarginLoss(), lambda m: [probabilities(m).round()]),
    ("CosineEmbeddingLoss", lambda m: m.nn.CosineEmbeddingLoss(0.2), lambda m: [numbers(m, 3, 4) * 2 + 0.1, signs(m)]),
    ("MarginRankingLoss", lambda m: m.nn.MarginRankingLoss(0.2), lambda m: [numbers(m, 3, 4) * 2, signs(m)[:, None]]),
    ("MultiMarginLoss", lambda m: m.nn.MultiMarginLoss(p=2, weight=probabilities(m)[0]), lambda m: [classes(m)]),
    (
        "TripletMarginLoss",
        lambda m: m.nn.TripletMarginLoss(swap=True),
        lambda m: [numbers(m, 3, 4) * 2, numbers(m, 3, 4).flip(0)],
    ),
    (
        "TripletMarginWithDistanceLoss",
        lambda m: m.nn.TripletMarginWithDistanceLoss(reduction="none"),
        lambda m: [numbers(m, 3, 4) * 2, numbers(m, 3, 4).flip(0)],
    ),
    ("LinearCrossEntropyLoss", lambda m: m.nn.LinearCrossEntropyLoss(4, 5, bias=True).double(), lambda m: [classes(m)]),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0])
def test_loss(row, same):
    name, build, others, *first = row

    def program(m):
        m.manual_seed(3)
        loss = build(m)
        x = (first[0](m) if first else numbers(m, 3, 4)).requires_grad_()
        out = loss(x, *others(m))
        out.sum().backward()
        return (out.detach(), x.grad, gradients(loss), repr(loss), list(loss.state_dict()), loss.reduction)

    same(program, name)


program = Programs()
test_same_as_torch = program.test()


@program
def ctc(m):
    x = numbers(m, 6, 2, 4).log_softmax(-1).requires_grad_()
    targets = m.tensor([[1, 2, 2], [3, 1, 0]])
    out = m.nn.CTCLoss()(x, targets, m.tensor([6, 5]), m.tensor([3, 2]))
    out.backward()
    short = m.nn.CTCLoss(zero_infinity=True, reduction="none")(x, targets, (1, 5), (3, 2))
    return out.detach(), x.grad, short.detach()


@program
def older_reductions(m):
    seen = [m.nn.MSELoss(*a).reduction for a in ((False,), (None, False), (True, True), (False, True))]
    return (seen, m.nn.CrossEntropyLoss(size_average=False).reduction, attempt(lambda: m.nn.NLLLoss2d().reduction))


@program
def numbers_of_reductions(m):
    r = m.nn._reduction
    return (
        [r.get_enum(k) for k in ("none", "mean", "sum")],
        attempt(lambda: r.get_enum("x")),
        quietly(lambda: r.legacy_get_enum(None, False)),
        r.legacy_get_string(True, None, emit_warning=False),
    )


@program
def targets_of_another_dtype(m):
    f = m.nn.functional
    x, t = numbers(m, 3, 4).float(), numbers(m, 3, 4) * 0.7
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    huber, soft = f.huber_loss(a, t), f.soft_margin_loss(b, t, reduction="none")
    logits = f.binary_cross_entropy_with_logits(t, x.sigmoid(), weight=t.abs())
    soft.sum().backward()
    return huber.detach(), attempt(huber.backward), soft.detach(), b.grad, logits


@program
def targets_that_hold_no_loss(m):
    f = m.nn.functional
    x = numbers(m, 3, 4)
    losses = [f.huber_loss, f.soft_margin_loss, f.binary_cross_entropy_with_logits]
    pairs = [(x.long(), x), (x, x.long()), (x, x > 0), (x, x.to(m.complex64))]
    return [attempt(partial(loss, *pair)) for loss in losses for pair in pairs]


@program
def reductions_beside_a_weight(m):
    f = m.nn.functional
    x = numbers(m, 3, 4)
    return [
        attempt(partial(fn, x, x + 1, weight=w, reduction="other"))
        for fn in (f.mse_loss, f.l1_loss)
        for w in (None, x.abs())
    ]


@program
def smoothed_beyond_one(m):
    f = m.nn.functional
    x = numbers(m, 3, 4)
    soft = x.softmax(-1)
    empty = f.cross_entropy(x[:0].clone().requires_grad_(), soft[:0])
    return (
        attempt(lambda: f.cross_entropy(x, soft, label_smoothing=1.5)),
        attempt(lambda: f.cross_entropy(x, soft, ignore_index=1, label_smoothing=1.5)),
        attempt(lambda: f.cross_entropy(x, classes(m), label_smoothing=1.5)),
        f.cross_entropy(x, soft, label_smoothing=-0.5),
        empty.grad_fn.name(),
        empty.detach(),
    )


@program
def ctc_with_blanks_among_the_targets(m):
    x = numbers(m, 6, 3, 4).log_softmax(-1).requires_grad_()
    targets = m.tensor([[0, 0, 1], [1, 0, 1], [2, 0, 2]])
    out = m.nn.functional.ctc_loss(x, targets, (6, 6, 5), (3, 3, 3), reduction="none")
    out.sum().backward()
    return out.detach(), x.grad


@program
def ctc_of_bad_sizes(m):
    x = numbers(m, 6, 3, 4).log_softmax(-1)
    t = m.ones(3, 3, dtype=m.int64)
    ctc = m.nn.functional.ctc_loss
    return [
        attempt(partial(ctc, x, a, b, c))
        for a, b, c in (
            (t[..., None], (6, 6, 6), (3, 3, 3)),
            (t[0, 0], (6, 6, 6), (3, 3, 3)),
            (t, (6, 6, 6), (3, 3, -1)),
            (t, (6, 6, -2), (3, 3, 1)),
            (t, (6, 7, 6), (3, 3, 1)),
        )
    ]


@program
def norms_except_a_dimension(m):
    v = numbers(m, 2, 3, 4, requires_grad=True)
    outs = [m.norm_except_dim(v, 2, d) for d in (-1, 0, 1, 2)]
    return [(o.detach(), o.stride(), m.autograd.grad(o.sum(), v)[0]) for o in outs]


OPTIONS = [{"batch_chunk_size": n} for n in (None, 2, 0, -1, 2.5, "2")] + [
    {"chunking_method": c}
    for c in ("auto", None, "aspect_ratio", "aspect_ratio:2", "aspect_ratio:0", "aspect_ratio:", "")
]
OPTIONS += [{"acc_policy": p} for p in ("auto", "accurate", "balanced", "compact", "quick", None)]
DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "complex64")


@program
def options_of_chunks(m):
    options = m.nn.LinearCrossEntropyOptions
    given = [*OPTIONS, *({"acc_dtype": getattr(m, d)} for d in DTYPES)]
    return [complaint(lambda g=g: options(**g))[0] for g in given]


@program
def sums_of_chunks_in_another_dtype(m):
    def loss(dtype, acc):
        x, w = numbers(m, 3, 4).to(getattr(m, dtype)), numbers(m, 5, 4).to(getattr(m, dtype))
        options = m.nn.LinearCrossEntropyOptions(acc_dtype=getattr(m, acc))
        return first_line(lambda: m.nn.functional.linear_cross_entropy(x, w, classes(m), options=options))

    return [[loss(dtype, acc) for acc in DTYPES[:4]] for dtype in DTYPES[:4]]


@program
def options_are_known_by_their_fields(m):
    x, w = numbers(m, 3, 4), numbers(m, 5, 4)
    own = m.nn.LinearCrossEntropyOptions(batch_chunk_size=2)

    class Other(type(own)):
        __slots__ = ()

    loss = partial(m.nn.functional.linear_cross_entropy, x, w, classes(m))
    wrong = [complaint(lambda o=o: loss(options=o))[0] for o in (3, {}, "auto")]
    return loss(options=own), loss(options=Other(batch_chunk_size=2)), wrong


@program
def options_are_found_where_pickles_look(m):
    return [m.nn.LinearCrossEntropyOptions.__module__.partition(".")[2], m.nn.LinearCrossEntropyOptions.__qualname__]
