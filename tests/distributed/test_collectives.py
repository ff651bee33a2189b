"""Collectives of three processes, as torch's with gloo."""

import warnings

from .processes import Together, complaint

together = Together(3)
test_same_as_torch = together.test()


def mine(m, d, *shape):
    """A tensor that each rank fills differently."""
    n = m.ones(shape).numel()
    return (m.arange(n).reshape(shape) + 1) * (d.get_rank() + 2)


REDUCTIONS = {
    "SUM": "float32 float64 int32 int64 uint8 bool bfloat16 float16 complex64",
    "PRODUCT": "float32 int64 bool uint8",
    "MIN": "float32 int64 bool bfloat16",
    "MAX": "float64 int32 uint8",
    "BAND": "int64 bool uint8 float32",
    "BOR": "int32 bool",
    "BXOR": "int64 bool",
    "AVG": "float32 int64 float64",
}


@together
def all_reduce_with_every_op(m, d):
    found = {}
    for op, dtypes in REDUCTIONS.items():
        for name in dtypes.split():
            x = mine(m, d, 2, 2).to(getattr(m, name))
            wrong = complaint(lambda x=x, op=op: d.all_reduce(x, op=getattr(d.ReduceOp, op)))
            found[op, name] = wrong if wrong[0] != "nothing" else x
    return found


@together
def large_tensors_are_reduced_in_parts(m, d):
    x = m.arange(50001.0) * (d.get_rank() + 1)
    d.all_reduce(x)
    y = m.arange(50001.0).reshape(3, -1)[:, ::2] * (d.get_rank() + 1)
    d.all_reduce(y, op=d.ReduceOp.MAX)
    return x.sum(), x[::5000], y.sum(1)


@together
def versions_and_views(m, d):
    x = m.zeros(4, 3)
    part = x[1:3]
    part += d.get_rank()
    before = x._version
    d.all_reduce(part)
    d.broadcast(part, 1)
    outs = [m.zeros(2) for _ in range(3)]
    d.all_gather(outs, m.ones(2))
    p = m.ones(2, requires_grad=True)
    d.all_reduce(p)
    return x, x._version - before, p, p.is_leaf


@together
def from_and_to_one_rank(m, d):
    rank, found = d.get_rank(), []
    for root in range(3):
        x, y = mine(m, d, 2), mine(m, d, 3)
        d.broadcast(x, root)
        d.reduce(y, root, op=d.ReduceOp.MAX)
        outs = [m.zeros(2) for _ in range(3)] if rank == root else None
        d.gather(mine(m, d, 2).float(), outs, dst=root)
        z = m.zeros(2)
        parts = [m.full((2,), float(10 * root + i)) for i in range(3)] if rank == root else None
        d.scatter(z, parts, src=root)
        found.append([x, y if rank == root else None, outs, z])
    return found


@together
def gathered_and_scattered(m, d):
    x = mine(m, d, 2, 3).float()
    outs = [m.zeros(2, 3) for _ in range(3)]
    d.all_gather(outs, x)
    one = m.zeros(6, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        d.all_gather_into_tensor(one, x)
        part = m.zeros(2)
        d.reduce_scatter_tensor(part, mine(m, d, 6).float())
        wrong = [
            complaint(lambda: d.all_gather_into_tensor(m.zeros(7), m.zeros(2)))[0],
            complaint(lambda: d.reduce_scatter_tensor(m.zeros(2), m.zeros(7)))[0],
        ]
    summed = m.zeros(2)
    d.reduce_scatter(summed, [mine(m, d, 2).float() + i for i in range(3)])
    return outs, one, part, summed, wrong


@together
def parts_of_unequal_sizes_are_summed(m, d):
    out = m.zeros(d.get_rank() + 1)
    d.reduce_scatter(out, [mine(m, d, i + 1).float() for i in range(3)])
    return out


@together
def sums_overflow_without_a_word(m, d):
    x, y = m.full((2,), 3e38), m.full((2,), 2**62)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        d.all_reduce(x)
        d.all_reduce(y)
    return x, y


@together
def all_to_all(m, d):
    rank = d.get_rank()
    out = m.zeros(6)
    d.all_to_all_single(out, mine(m, d, 6).float())
    counts = [rank + 1, 1, 2]
    incoming = [[1, 2, 3][r] if rank == 0 else [1, 1, 1][r] if rank == 1 else 2 for r in range(3)]
    uneven = m.zeros(sum(incoming), 2)
    d.all_to_all_single(uneven, mine(m, d, sum(counts), 2).float(), incoming, counts)
    wrong = complaint(lambda: d.all_to_all_single(m.zeros(6), m.zeros(6), [1, 2], [3, 3]))
    return out, uneven, wrong


@together
def messages(m, d):
    rank = d.get_rank()
    right, left = (rank + 1) % 3, (rank + 2) % 3
    x, y = m.full((2,), float(rank)), m.zeros(2)
    if rank == 0:
        d.send(x, right)
        source = d.recv(y, left)
    else:
        source = d.recv(y, left)
        d.send(x, right)
    z, w = m.zeros(2), m.zeros(3)
    work = [d.irecv(w, left, tag=2), d.irecv(z, left, tag=1)]
    work += [d.isend(x + 10, right, tag=1), d.isend(m.full((3,), rank + 20.0), right, tag=2)]
    for one in work:
        one.wait()
    got = m.zeros(1)
    ops = [d.P2POp(d.isend, m.full((1,), rank + 30.0), right), d.P2POp(d.irecv, got, left)]
    for one in d.batch_isend_irecv(ops):
        one.wait()
    itself = complaint(lambda: d.send(x, rank))[0]
    wrong = [complaint(lambda: d.P2POp(d.all_reduce, x, 0)), complaint(lambda: d.batch_isend_irecv([3]))]
    return y, source, z, w, got, itself, wrong


@together
def from_anybody(m, d):
    if d.get_rank():
        d.send(m.full((1,), float(d.get_rank())), 0, tag=9)
        return None
    found = []
    for _ in range(2):
        x = m.zeros(1)
        found.append((d.recv(x, tag=9), x.item()))
    return sorted(found)


@together
def objects(m, d):
    rank = d.get_rank()
    everybody, there = [None] * 3, [None] * 3
    d.all_gather_object(everybody, {"rank": rank, "more": "x" * rank})
    d.gather_object(("of", rank), there if rank == 2 else None, dst=2)
    sent = [[1, rank], "two"] if rank == 1 else [None, None]
    d.broadcast_object_list(sent, src=1)
    out = [None]
    d.scatter_object_list(out, [f"for {i}" for i in range(3)] if rank == 0 else None, src=0)
    box = [{"from": rank}]
    if rank == 0:
        d.send_object_list(box, 1)
    elif rank == 1:
        d.recv_object_list(box, 0)
    return everybody, there, sent, out, box


@together
def without_waiting(m, d):
    x, y = mine(m, d, 3).float(), m.zeros(3)
    works = [d.all_reduce(x, async_op=True), d.broadcast(y.fill_(d.get_rank()), 2, async_op=True)]
    waited = [w.wait() for w in works]
    z = mine(m, d, 2).float()
    halved = d.all_reduce(z, async_op=True).get_future().then(lambda f: f.value()[0] / 2)
    return (x, y, waited, [w.is_completed() for w in works], halved.wait(), d.barrier(async_op=True).wait())


@together
def groups(m, d):
    rank = d.get_rank()
    pair = d.new_group([0, 2])
    rest = d.new_group([1])
    outside = d.GroupMember.NON_GROUP_MEMBER
    found = [d.get_rank(pair), d.get_world_size(pair), pair is outside or pair == outside, d.get_rank(rest)]
    x = mine(m, d, 2)
    if rank != 1:
        d.all_reduce(x, group=pair)
        y = mine(m, d, 2)
        d.broadcast(y, src=2, group=pair)
        d.broadcast(x, group_src=1, group=pair)
        found += [y, d.get_process_group_ranks(pair), d.get_group_rank(pair, 2), d.get_global_rank(pair, 1)]
        found += [complaint(lambda: d.get_global_rank(pair, 5))[0], complaint(lambda: d.broadcast(y, 1, group=pair))[0]]
    else:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            d.all_reduce(x, group=pair)
        found += [[str(w.message) for w in seen]]
    own, subgroups = d.new_subgroups(1)
    turned = d.new_group([2, 0, 1], sort_ranks=False)
    found += [d.get_rank(own), d.get_process_group_ranks(own), len(subgroups), d.get_rank(turned)]
    outs = [m.zeros(1) for _ in range(3)]
    d.all_gather(outs, m.ones(1) * rank, group=turned)
    wrong = [
        complaint(lambda: d.new_group([7])),
        complaint(lambda: d.new_subgroups(2))[0],
        complaint(lambda: d.new_subgroups_by_enumeration([[0], [0]])),
    ]
    d.barrier()
    return x, found, outs, wrong


@together
def barriers(m, d):
    return d.barrier(), d.monitored_barrier()


@together
def what_does_not_fit(m, d):
    x = m.ones(2)
    asks = (
        lambda: d.all_gather([m.zeros(2)], x),
        lambda: d.all_gather([m.zeros(2), m.zeros(3), m.zeros(2)], x),
        lambda: d.all_gather([m.zeros(2).int()] * 3, x),
        lambda: d.broadcast(x),
        lambda: d.broadcast(x, 1, group_src=1),
        lambda: d.gather(x, [x] * 3 if d.get_rank() != 1 else None, dst=1),
        lambda: d.scatter(x, [x] * 3 if d.get_rank() != 1 else None, src=1),
        lambda: d.all_reduce(m.ones(2, dtype=m.complex64), op=d.ReduceOp.MAX),
    )
    return [complaint(ask) for ask in asks]


@together
def gradients_through_collectives(m, d):
    f, rank = d.nn.functional, d.get_rank()
    x = mine(m, d, 3).float().requires_grad_()
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = {
            "all_reduce": lambda: f.all_reduce(x),
            "broadcast": lambda: f.broadcast(x, 1),
            "reduce": lambda: f.reduce(x, 2) * (rank == 2),
            "all_gather": lambda: sum((i + 1) * y for i, y in enumerate(f.all_gather(x))),
            "gather": lambda: sum((i + 1) * y for i, y in enumerate(f.gather(x, 1))),
            "scatter": lambda: f.scatter([x * (i + 1) for i in range(3)], 0),
            "reduce_scatter": lambda: f.reduce_scatter(m.zeros(3), [x * (i + 1) for i in range(3)]),
            "all_to_all": lambda: sum(f.all_to_all([m.zeros(3) for _ in range(3)], [x * (i + 1) for i in range(3)])),
            "all_to_all_single": lambda: f.all_to_all_single(m.zeros(3), x),
        }
        for name, call in calls.items():
            y = call()
            (y * (rank + 1)).sum().backward()
            results[name] = y, x.grad
            x.grad = None
    return results


@together
def stores(m, d):
    store = d.PrefixStore("mine", d.distributed_c10d._get_default_store())
    rank = d.get_rank()
    store.set(f"key {rank}", f"value {rank}")
    found = [store.get(f"key {i}") for i in range(3)]
    store.add("sum", rank + 1)
    d.barrier()
    found += [store.add("sum", 0), store.check(["sum"]), store.check(["sum", "none"])]
    first = store.compare_set(f"own {rank}", "", "a"), store.compare_set(f"own {rank}", "x", "b")
    last = store.compare_set(f"own {rank}", "a", "c")
    gone = store.delete_key(f"own {rank}"), store.delete_key(f"own {rank}")
    return found, first, last, gone


@together
def kinds_of_reductions(m, d):
    return isinstance(d.ReduceOp.MAX, d.ReduceOp), d.supports_complex(d.ReduceOp.MAX)
