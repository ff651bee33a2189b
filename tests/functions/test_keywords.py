"""Arguments by the names that torch has for them, all of them by keyword."""

from tests.programs import Programs, complaint, first_line

program = Programs()
test_same_as_torch = program.test()


def square(m):
    return m.tensor([[2.0, 0.25], [0.125, 1.75]])


@program
def sizes(m):
    x = m.arange(6.0)
    functions = [
        m.reshape(input=x, shape=(3, 2)),
        m.tile(input=x, dims=(2,)),
        m.broadcast_to(input=x, size=(2, 6)),
        m.permute(input=x.view(2, 3), dims=(1, 0)),
        m.flip(input=x, dims=(0,)),
        m.roll(input=x, shifts=1),
    ]
    methods = [x.reshape(shape=(2, 3)), x.view(size=(3, 2)), x.expand(size=(2, 6)), x.repeat(repeats=(1, 2))]
    return functions, methods


@program
def parts(m):
    x = square(m)
    found = [f(input=x, sections=2) for f in (m.hsplit, m.vsplit, m.tensor_split)]
    found += [f(input=x, indices=(1,)) for f in (m.hsplit, m.vsplit, m.tensor_split)]
    found += [x.hsplit(sections=1), x.vsplit(indices=(1,)), m.unsafe_split(input=x, split_size=1)]
    both = complaint(lambda: m.hsplit(x, sections=2, indices=(1,)))
    return found, both[0]


@program
def dimensions(m):
    x = m.arange(6.0).view(2, 3)
    in_place = m.arange(6.0).view(2, 3).swapaxes_(axis0=0, axis1=1)
    return m.swapaxes(input=x, axis0=0, axis1=1), x.swapaxes(axis0=1, axis1=0), in_place


@program
def other_tensors(m):
    x = square(m)
    written = m.zeros(2, 2).copy_(other=x, non_blocking=True)
    found = [m.isin(element=2.0, test_elements=x), m.isin(elements=x, test_element=2.0)]
    resized = m.resize_as_(input=m.zeros(1), the_template=x)
    rows = m.embedding_renorm_(input=square(m), indices=m.tensor([0]), max_norm=1.0, norm_type=2.0)
    return written, found, resized.shape, rows


@program.long
def matrices(m):
    x = square(m)
    names = ("norm", "matrix_norm", "ldl_factor", "ldl_factor_ex")
    return [tuple(getattr(m.linalg, n)(input=x)) if "ldl" in n else getattr(m.linalg, n)(input=x) for n in names]


@program.long
def histograms(m):
    x = square(m)
    counts, edges = m.histogram(input=x)
    return counts.sum(), edges.shape, x.histogram(bins=3)[0]


@program
def complaints(m):
    x = square(m)
    return [
        first_line(lambda: x.view(dtype="a")),
        first_line(lambda: x.view(dtype=1)),
        first_line(lambda: m.ormqr(x, x, x)),
    ]


@program
def overloads(m):
    x = square(m)
    sums = [m.sub(x, 2.0, 3), m.add(x, 2.0, 3), x.subtract(2.0, 3), x.clone().add_(1, 2), m.nuclear_norm(x, True)]
    losses = m.nn.functional.margin_ranking_loss(x[0], x[1], x[0], reduction="none")._version
    m.manual_seed(0)
    sums.append(complaint(lambda: m.subtract(x, x, 2))[0])
    return sums, losses, m.nn.functional.alpha_dropout(x, 0.5, True)._version


@program
def texts(m):
    x = square(m)
    calls = [
        lambda: m.gru_cell(x, x, m.ones(6, 3), m.ones(6, 2)),
        lambda: m.gru_cell(x, x, m.ones(5, 2), m.ones(6, 2)),
        lambda: m.gru_cell(x, x, m.ones(6, 2), m.ones(5, 2)),
        lambda: m.gru_cell(x[0], x[0], m.ones(6, 2), m.ones(6, 2)),
        lambda: m.rnn_tanh_cell(x, x, m.ones(3, 2), m.ones(2, 2)),
        lambda: m.lstm_cell(x, (x, x), m.ones(8, 2), m.ones(8, 3)),
        lambda: m.nanquantile(x.long(), 0.5),
        lambda: m.repeat_interleave(x),
        lambda: m.repeat_interleave(m.tensor([[1, 2]])),
    ]
    return [complaint(call) for call in calls]
