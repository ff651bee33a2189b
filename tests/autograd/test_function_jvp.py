"""Functions in forward mode, compared with torch."""

from tests.autograd.functions import cube, doubles_in_place
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def jvp(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_forward(x, y)
            return x * y

        @staticmethod
        def jvp(ctx, tx, ty):
            x, y = ctx.saved_tensors
            ctx.seen = (tx.tolist(), ty.tolist())
            return tx * y + x * ty

    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))
        out = F.apply(a, m.tensor([5.0]))
        return fw.unpack_dual(out)


@program
def jvp_missing(m):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))
        return cube(m).apply(a)


@program
def jvp_wrong_count(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            return t, t

    with fw.dual_level():
        return F.apply(fw.make_dual(m.tensor([2.0]), m.tensor([1.0])))


@program
def jvp_wrong_shape(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            return m.ones(3)

    with fw.dual_level():
        return fw.unpack_dual(F.apply(fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))))


@program
def jvp_of_dirty(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return doubles_in_place(ctx, x)

        @staticmethod
        def jvp(ctx, t):
            return t.mul_(2)

    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))
        b = F.apply(a)
        return fw.unpack_dual(b), a is b


@program
def jvp_of_dirty_out_of_place(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return doubles_in_place(ctx, x)

        @staticmethod
        def jvp(ctx, t):
            return t * 2

    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))
        return F.apply(a)


@program
def jvp_view(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1]

        @staticmethod
        def jvp(ctx, t):
            return t[:1]

    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0, 3.0]), m.tensor([1.0, 5.0]))
        return fw.unpack_dual(F.apply(a))


@program
def jvp_view_wrong(m):
    fw = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1]

        @staticmethod
        def jvp(ctx, t):
            return t[:1] * 1

    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0, 3.0]), m.tensor([1.0, 5.0]))
        return fw.unpack_dual(F.apply(a))
