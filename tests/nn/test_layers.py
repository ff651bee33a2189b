"""Every layer: initial values, repr, state, results and gradients; compared with torch."""

from functools import partial

import pytest

from tests.programs import Programs

from .programs import attempt, gradients, numbers, weighted

# Name, constructor, shapes of the inputs; a trailing number chooses the integers of an index input.
ROWS = [
    ("Identity", lambda n: n.Identity(3, a=4), (2, 3)),
    ("Linear", lambda n: n.Linear(3, 2), (2, 3)),
    ("Linear no bias", lambda n: n.Linear(3, 2, bias=False), (3,)),
    ("Bilinear", lambda n: n.Bilinear(2, 3, 4), (2, 2), (2, 3)),
    ("LazyLinear", lambda n: n.LazyLinear(2), (2, 3)),
    ("Conv1d", lambda n: n.Conv1d(2, 4, 3, padding=1, groups=2), (1, 2, 5)),
    ("Conv1d same", lambda n: n.Conv1d(2, 2, 3, padding="same", bias=False), (2, 4)),
    ("Conv2d", lambda n: n.Conv2d(2, 3, (2, 3), stride=2, padding=(0, 1), dilation=(1, 2)), (1, 2, 5, 6)),
    ("Conv2d reflect", lambda n: n.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), (1, 1, 3, 3)),
    ("Conv2d circular", lambda n: n.Conv2d(1, 1, 3, padding="same", padding_mode="circular"), (1, 1, 3, 3)),
    ("Conv3d", lambda n: n.Conv3d(1, 2, 2), (1, 1, 2, 3, 2)),
    ("ConvTranspose1d", lambda n: n.ConvTranspose1d(2, 2, 3, stride=2, output_padding=1), (1, 2, 3)),
    ("ConvTranspose2d", lambda n: n.ConvTranspose2d(2, 4, 2, stride=2, padding=1, groups=2), (1, 2, 3, 3)),
    ("ConvTranspose3d", lambda n: n.ConvTranspose3d(1, 1, 2, bias=False), (1, 1, 2, 2, 2)),
    ("LazyConv2d", lambda n: n.LazyConv2d(2, 2), (1, 3, 3, 3)),
    ("LazyConvTranspose1d", lambda n: n.LazyConvTranspose1d(2, 2), (1, 3, 3)),
    ("BatchNorm1d", lambda n: n.BatchNorm1d(3), (4, 3)),
    ("BatchNorm1d cumulative", lambda n: n.BatchNorm1d(3, momentum=None), (4, 3, 2)),
    ("BatchNorm1d eval", lambda n: n.BatchNorm1d(3).eval(), (4, 3)),
    ("BatchNorm2d", lambda n: n.BatchNorm2d(2, affine=False), (2, 2, 2, 3)),
    ("BatchNorm2d no bias", lambda n: n.BatchNorm2d(2, bias=False), (2, 2, 2, 3)),
    ("BatchNorm3d", lambda n: n.BatchNorm3d(1, track_running_stats=False).eval(), (2, 1, 2, 2, 2)),
    ("LazyBatchNorm1d", lambda n: n.LazyBatchNorm1d(), (4, 3)),
    ("SyncBatchNorm", lambda n: n.SyncBatchNorm(3), (4, 3)),
    ("InstanceNorm1d", lambda n: n.InstanceNorm1d(2, affine=True), (2, 2, 4)),
    ("InstanceNorm2d", lambda n: n.InstanceNorm2d(2, track_running_stats=True), (2, 2, 2, 3)),
    ("InstanceNorm1d single", lambda n: n.InstanceNorm1d(2), (2, 4)),
    ("LazyInstanceNorm3d", lambda n: n.LazyInstanceNorm3d(), (1, 2, 2, 2, 2)),
    ("LayerNorm", lambda n: n.LayerNorm((2, 3)), (2, 2, 3)),
    ("LayerNorm no bias", lambda n: n.LayerNorm(3, bias=False), (2, 3)),
    ("GroupNorm", lambda n: n.GroupNorm(2, 4), (2, 4, 3)),
    ("RMSNorm", lambda n: n.RMSNorm(3), (2, 3)),
    ("LocalResponseNorm", lambda n: n.LocalResponseNorm(2), (1, 3, 2, 2)),
    ("CrossMapLRN2d", lambda n: n.CrossMapLRN2d(3, alpha=0.5), (1, 5, 1, 2)),
    ("CrossMapLRN2d even", lambda n: n.CrossMapLRN2d(4, alpha=0.5), (1, 6, 1, 1)),
    ("MaxPool1d", lambda n: n.MaxPool1d(2, ceil_mode=True), (1, 2, 5)),
    ("MaxPool2d", lambda n: n.MaxPool2d((2, 1), padding=(1, 0)), (1, 1, 4, 3)),
    ("MaxPool3d", lambda n: n.MaxPool3d(2), (1, 1, 2, 2, 4)),
    ("AvgPool1d", lambda n: n.AvgPool1d(2, padding=1), (1, 2, 5)),
    ("AvgPool2d", lambda n: n.AvgPool2d(2, divisor_override=3), (1, 1, 4, 4)),
    ("AvgPool3d", lambda n: n.AvgPool3d(2), (1, 1, 2, 2, 4)),
    ("LPPool1d", lambda n: n.LPPool1d(2, 2), (1, 2, 4)),
    ("LPPool2d", lambda n: n.LPPool2d(3, 2), (1, 1, 4, 4)),
    ("AdaptiveAvgPool1d", lambda n: n.AdaptiveAvgPool1d(2), (1, 2, 5)),
    ("AdaptiveAvgPool2d", lambda n: n.AdaptiveAvgPool2d((None, 2)), (1, 1, 3, 5)),
    ("AdaptiveAvgPool3d", lambda n: n.AdaptiveAvgPool3d(1), (1, 1, 2, 2, 2)),
    ("AdaptiveMaxPool1d", lambda n: n.AdaptiveMaxPool1d(2), (1, 2, 5)),
    ("AdaptiveMaxPool2d", lambda n: n.AdaptiveMaxPool2d((1, None)), (1, 1, 3, 5)),
    ("FractionalMaxPool2d", lambda n: n.FractionalMaxPool2d(2, output_size=2), (1, 1, 5, 5)),
    ("FractionalMaxPool3d", lambda n: n.FractionalMaxPool3d(2, output_ratio=0.5), (1, 1, 4, 4, 4)),
    ("ConstantPad1d", lambda n: n.ConstantPad1d((1, 2), 3.5), (1, 2, 3)),
    ("ConstantPad3d", lambda n: n.ConstantPad3d(1, 3.5), (1, 1, 1, 1)),
    ("ZeroPad2d", lambda n: n.ZeroPad2d((1, 0, -1, 2)), (1, 1, 2, 3)),
    ("ReflectionPad1d", lambda n: n.ReflectionPad1d(2), (1, 2, 3)),
    ("ReflectionPad2d", lambda n: n.ReflectionPad2d(1), (1, 1, 2, 3)),
    ("ReplicationPad3d", lambda n: n.ReplicationPad3d(1), (1, 1, 1, 2, 1)),
    ("CircularPad1d", lambda n: n.CircularPad1d(1), (1, 2, 3)),
    ("CircularPad2d", lambda n: n.CircularPad2d((1, 1, 0, 1)), (1, 1, 2, 3)),
    ("Dropout", lambda n: n.Dropout(0.3), (4, 5)),
    ("Dropout eval", lambda n: n.Dropout(0.3).eval(), (4, 5)),
    ("Dropout1d", lambda n: n.Dropout1d(0.5), (2, 3, 2)),
    ("Dropout2d", lambda n: n.Dropout2d(0.5), (2, 3, 2, 2)),
    ("Dropout3d", lambda n: n.Dropout3d(0.5), (2, 3, 1, 2, 2)),
    ("AlphaDropout", lambda n: n.AlphaDropout(0.3), (4, 5)),
    ("FeatureAlphaDropout", lambda n: n.FeatureAlphaDropout(0.5), (2, 3, 2)),
    ("RReLU", lambda n: n.RReLU(), (4, 5)),
    ("PReLU", lambda n: n.PReLU(3), (2, 3)),
    ("Threshold", lambda n: n.Threshold(0.1, 20), (3, 4)),
    ("Hardtanh", lambda n: n.Hardtanh(-0.5, 0.5), (3, 4)),
    ("GELU tanh", lambda n: n.GELU("tanh"), (3, 4)),
    ("Softplus", lambda n: n.Softplus(2, 0.5), (3, 4)),
    ("Softmax", lambda n: n.Softmax(1), (3, 4)),
    ("Softmax implicit", lambda n: n.Softmax(), (3, 4)),
    ("LogSoftmax", lambda n: n.LogSoftmax(-1), (3, 4)),
    ("Softmin", lambda n: n.Softmin(dim=0), (3, 4)),
    ("Softmax2d", lambda n: n.Softmax2d(), (1, 2, 1, 2)),
    ("GLU", lambda n: n.GLU(), (2, 4)),
    ("Flatten", lambda n: n.Flatten(), (2, 2, 3)),
    ("Unflatten", lambda n: n.Unflatten(1, (2, -1)), (2, 4)),
    ("Fold", lambda n: n.Fold((3, 3), 2), (1, 4, 4)),
    ("Unfold", lambda n: n.Unfold(2, stride=2), (1, 1, 4, 4)),
    ("PixelShuffle", lambda n: n.PixelShuffle(2), (1, 4, 1, 2)),
    ("PixelUnshuffle", lambda n: n.PixelUnshuffle(2), (1, 1, 2, 4)),
    ("ChannelShuffle", lambda n: n.ChannelShuffle(2), (1, 4, 1, 2)),
    ("Upsample", lambda n: n.Upsample(scale_factor=2, mode="bilinear"), (1, 1, 2, 2)),
    ("UpsamplingNearest2d", lambda n: n.UpsamplingNearest2d(size=3), (1, 1, 2, 2)),
    ("UpsamplingBilinear2d", lambda n: n.UpsamplingBilinear2d(scale_factor=2), (1, 1, 2, 2)),
    ("CosineSimilarity", lambda n: n.CosineSimilarity(), (2, 3), (2, 3)),
    ("PairwiseDistance", lambda n: n.PairwiseDistance(3.0, keepdim=True), (2, 3), (2, 3)),
    *[
        (name, lambda n, name=name: getattr(n, name)(), (3, 4))
        for name in (
            "ReLU", "ReLU6", "Sigmoid", "Tanh", "SiLU", "Mish", "Hardswish", "ELU", "CELU", "SELU",
            "GELU", "Hardshrink", "Softshrink", "LeakyReLU", "LogSigmoid", "Softsign", "Tanhshrink",
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].replace(" ", "-"))
def test_layer(row, same):
    name, build, *shapes = row

    def program(m):
        m.manual_seed(7)
        layer = build(m.nn)
        seen = [repr(layer), list(layer.state_dict().items()) if "Lazy" not in name else None]
        layer.double()
        inputs = [numbers(m, *shape, requires_grad=True) for shape in shapes]
        out = layer(*inputs)
        weighted(out).backward()
        return (
            seen,
            out.detach(),
            [x.grad for x in inputs],
            gradients(layer),
            list(layer.buffers()),
            repr(layer),
            [n for n, _ in layer.named_parameters()],
        )

    same(program, name)


program = Programs()
test_same_as_torch = program.test()


@program
def in_place_activations(m):
    seen = []
    for name in ("ReLU", "ELU", "SiLU", "Hardtanh", "LeakyReLU", "Mish", "SELU", "CELU", "ReLU6", "Hardswish"):
        layer = getattr(m.nn, name)(inplace=True)
        x = numbers(m, 4)
        seen += [repr(layer), layer(x) is x, x]
    return seen, repr(m.nn.Threshold(1, 2, True)), repr(m.nn.RReLU(inplace=True))


@program
def hardsigmoid(m):
    """In float32: in float64 torch's gradient has a constant of float32 in it."""
    x = numbers(m, 4).float().requires_grad_()
    m.nn.Hardsigmoid()(x).sum().backward()
    return x.grad, repr(m.nn.Hardsigmoid(True))


@program
def refused_constructions(m):
    nn = m.nn
    tries = [
        lambda: nn.Conv2d(3, 2, 1, groups=2), lambda: nn.Conv2d(2, 3, 1, groups=2),
        lambda: nn.Conv2d(1, 1, 1, groups=0),
        lambda: nn.Conv1d(1, 1, 1, stride=2, padding="same"), lambda: nn.Bilinear(0, 1, 1), lambda: nn.Dropout(2),
        lambda: nn.ConvTranspose1d(1, 1, 1, padding_mode="reflect"), lambda: nn.GroupNorm(2, 3),
        lambda: nn.Hardtanh(1, 0), lambda: nn.Embedding(2, 2, padding_idx=2),
        lambda: nn.Embedding(2, 2, padding_idx=-3),
        lambda: nn.Embedding(2, 2, _weight=m.ones(3, 2)), lambda: nn.EmbeddingBag(2, 2, padding_idx=2),
        lambda: nn.Embedding.from_pretrained(m.ones(2)), lambda: nn.Unflatten(1, 2), lambda: nn.Unflatten(1, (2, 1.5)),
        lambda: nn.MultiMarginLoss(p=3), lambda: nn.MultiMarginLoss(weight=m.ones(1, 1)),
        lambda: nn.TripletMarginLoss(margin=0), lambda: nn.TripletMarginWithDistanceLoss(margin=-1),
        lambda: nn.HuberLoss(delta="a"), lambda: nn.FractionalMaxPool2d(2), lambda: nn.FractionalMaxPool2d(2, 2, 0.5),
        lambda: nn.FractionalMaxPool2d(2, output_ratio=2.0), lambda: nn.FractionalMaxPool3d(0, 1),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, []), lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [3, 2]),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [5]), lambda: nn.Hardtanh(min_value=-1, max_value=2).max_val,
        lambda: nn.Linear("a", 1), lambda: nn.LinearCrossEntropyLoss(2, 3, weight=m.ones(2)),
        lambda: nn.LinearCrossEntropyLoss(2, 3, label_smoothing=2),
    ]  # fmt: skip
    return ([attempt(t) for t in tries[:-3]], [attempt(t) for t in tries[-2:]], type(attempt(tries[-3])).__name__)


@program
def refused_inputs(m):
    nn, x = m.nn, m.ones(2, 3)
    tries = [
        lambda: nn.BatchNorm1d(3)(m.ones(3)),
        lambda: nn.BatchNorm2d(3)(x),
        lambda: nn.BatchNorm3d(3)(x),
        lambda: nn.BatchNorm1d(3)(m.ones(1, 3)),
        lambda: nn.InstanceNorm1d(3)(m.ones(3)),
        lambda: nn.InstanceNorm2d(3)(x),
        lambda: nn.InstanceNorm3d(3)(x),
        lambda: nn.InstanceNorm1d(5, affine=True)(m.ones(2, 3, 4)),
        lambda: nn.InstanceNorm1d(5)(m.ones(2, 3, 4)).shape,
        lambda: nn.SyncBatchNorm(1)(m.ones(1)),
        lambda: nn.CircularPad1d(1)(m.ones(3)),
        lambda: nn.CrossMapLRN2d(2)(x),
        lambda: nn.Softmax2d()(x),
        lambda: nn.LazyConv1d(1, 1)(m.ones(3)),
        lambda: nn.LazyConv2d(2, 1, groups=2)(m.ones(1, 3, 1, 1)),
        lambda: nn.ConvTranspose1d(1, 1, 2, stride=3)(m.ones(1, 1, 2), output_size=[9]),
        lambda: nn.ConvTranspose1d(1, 1, 2, stride=3)(m.ones(1, 1, 2), output_size=[1, 2]),
        lambda: nn.ConvTranspose1d(1, 1, 2, stride=3)(m.ones(1, 1, 2), output_size=[6]).shape,
        lambda: nn.AdaptiveLogSoftmaxWithLoss(3, 5, [2])(x, m.tensor([1])),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(3, 5, [2])(x, m.tensor([1, 7])),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(3, 5, [2])(x, m.tensor([[1, 7]])),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(3, 5, [2])(x, m.tensor(1)),
    ]
    return [attempt(t) for t in tries]


@program
def embeddings(m):
    m.manual_seed(0)
    e = m.nn.Embedding(5, 3, padding_idx=1, max_norm=1.0)
    rows = e(m.tensor([[0, 1], [4, 0]]))
    rows.sum().backward()
    f = m.nn.Embedding.from_pretrained(m.ones(2, 2), padding_idx=-1)
    b = m.nn.EmbeddingBag(5, 3, mode="sum", padding_idx=0)
    bags = b(m.tensor([0, 1, 2, 4]), m.tensor([0, 2]))
    bags.sum().backward()
    g = m.nn.EmbeddingBag.from_pretrained(m.ones(2, 2), freeze=False)
    e.reset_parameters()
    return (
        rows.detach(),
        e.weight.grad,
        e.weight.detach(),
        f.weight,
        f.padding_idx,
        bags.detach(),
        b.weight.grad,
        g.weight.requires_grad,
        repr(f),
        repr(g),
    )


@program
def unpooling(m):
    pool, back = m.nn.MaxPool2d(2, return_indices=True), m.nn.MaxUnpool2d(2)
    x = numbers(m, 1, 1, 4, 5, requires_grad=True)
    y, places = pool(x)
    out = back(y, places, output_size=x.size())
    weighted(out).backward()
    one, where = m.nn.MaxPool1d(2, return_indices=True)(x[0, 0])
    return places, out.detach(), x.grad, m.nn.MaxUnpool1d(2)(one, where).detach()


@program
def adaptive_softmax(m):
    m.manual_seed(0)
    a = m.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True).double()
    x = numbers(m, 5, 8, requires_grad=True)
    out, loss = a(x, m.tensor([0, 11, 4, 2, 6]))
    loss.backward()
    grads = gradients(a)
    a.zero_grad()
    a(x, m.tensor([0, 1, 4, 2, 6])).loss.backward()
    single = a(x[0], m.tensor(4))
    return (
        out.detach(),
        loss.detach(),
        x.grad,
        grads,
        gradients(a),
        a.log_prob(x).detach(),
        a.predict(x),
        single.output.detach(),
        repr(a),
    )


@program
def lazy_modules(m):
    m.manual_seed(0)
    n = m.nn.Sequential(m.nn.LazyConv1d(2, 2), m.nn.LazyBatchNorm1d(), m.nn.Flatten(), m.nn.LazyLinear(3, bias=False))
    seen = [repr(n), list(n.state_dict()), n[0].has_uninitialized_params(), attempt(lambda: n[0].weight.shape)]
    m.manual_seed(0)
    n(m.ones(2, 3, 4))
    seen += [repr(n), [type(x).__name__ for x in n], list(n.state_dict().items())]
    other = m.nn.Sequential(
        m.nn.LazyConv1d(2, 2), m.nn.LazyBatchNorm1d(), m.nn.Flatten(), m.nn.LazyLinear(3, bias=False)
    )
    other.load_state_dict(n.state_dict())
    seen += [type(other[0]).__name__, other[0].weight.shape, other(m.ones(2, 3, 4)).shape, type(other[3]).__name__]
    late = m.nn.LazyLinear(2)
    late.load_state_dict(m.nn.Linear(4, 2).state_dict())
    return (seen, attempt(lambda: late(m.ones(1, 3))), late(m.ones(1, 4)).shape, len(late._forward_pre_hooks))


@program
def converted_to_sync(m):
    n = m.nn.Sequential(m.nn.BatchNorm1d(2), m.nn.Sequential(m.nn.BatchNorm2d(2, affine=False)))
    weight = n[0].weight
    c = m.nn.SyncBatchNorm.convert_sync_batchnorm(n)
    return repr(c), c is n, c[0].weight is weight


@program
def old_states_of_batch_norm(m):
    n = m.nn.BatchNorm1d(2)
    s = dict(n.state_dict())
    del s["num_batches_tracked"]
    i = m.nn.InstanceNorm1d(2)
    return n.load_state_dict(s), attempt(lambda: i.load_state_dict({"running_mean": m.ones(2)}))


@program
def arguments_that_a_layer_has_not(m):
    class Own(m.nn.ReLU):
        pass

    kinds = [m.nn.ReLU, m.nn.SiLU, m.nn.Hardshrink, m.nn.Softmin, m.nn.LogSoftmax, m.nn.Softmax, Own]
    seen = [attempt(partial(kind, other=1)) for kind in kinds]
    return seen, repr(m.nn.Mish(True)), repr(m.nn.Softshrink(0.2)), m.nn.Softmin(1).dim


@program
def bags_of_bad_weights(m):
    bag, i, at = m.nn.functional.embedding_bag, m.tensor([1, 2, 0]), m.tensor([0])
    w, s = m.ones(4, 3), m.ones(3, dtype=m.float64)
    return [
        attempt(lambda: bag(i, w[0], at)),
        attempt(lambda: bag(i, w[None], at)),
        attempt(lambda: bag(i, w.long(), at)),
        attempt(lambda: bag(i, w.to(m.complex64), at)),
        attempt(lambda: bag(i, w, at, per_sample_weights=s, mode="sum")),
    ]


@program
def lanczos_without_corners(m):
    resize, x = m.nn.functional.interpolate, m.ones(1, 1, 4, 4)
    return [
        attempt(partial(resize, x, 2, mode="lanczos", align_corners=c, antialias=a))
        for c, a in ((True, True), (True, False), (False, False))
    ]
