"""What random programs found about tensors that are given other memory, and about views that outlive theirs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.helpers import play

# Lines that run one by one, whatever the ones before raised; then every tensor is looked at.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "views_of_a_view_set": (
        "a=torch.arange(6.).reshape(2,3)",
        "v=a[0]",
        "w=v.unsqueeze(-1)",
        "v.set_(v.clone())",
        "b=a+0",
        "v.mul_(2)",
        "a.mul_(3)",
    ),
    "no_view_follows": (
        "a=torch.arange(6.)",
        "v=a.view(2,3)",
        "a.set_(torch.ones(4))",
        "v.mul_(5)",
        "a.mul_(2)",
    ),
    "views_before_and_after_set": (
        "a=torch.arange(6.)",
        "v=a.view(2,3)",
        "a.set_(torch.ones(4))",
        "w=a.view(2,2)",
        "w.add_(1)",
        "u=v[0]",
        "u.add_(1)",
    ),
    "set_view_of_something_tracked": (
        "a=torch.arange(6.,requires_grad=True)",
        "b=a*1",
        "v=b.view(2,3)",
        "v.set_(v.clone())",
        "g=v.sum()",
        "g.backward()",
    ),
    "set_view_then_written_to": (
        "a=torch.arange(6.,requires_grad=True)",
        "b=a*1",
        "v=b.view(2,3)",
        "v.set_(torch.ones(4))",
        "v.mul_(2)",
        "b.mul_(2)",
    ),
    "base_set_then_its_view_written_to": (
        "a=torch.arange(6.,requires_grad=True)",
        "b=a*1",
        "v=b.view(2,3)",
        "b.set_(torch.ones(4))",
        "c=v*2",
        "v.mul_(2)",
        "b.mul_(2)",
    ),
    "base_set_then_a_new_view": (
        "a=torch.arange(6.,requires_grad=True)",
        "b=a*1",
        "v=b.view(2,3)",
        "b.set_(torch.ones(4))",
        "c=b.view(2,2)",
        "c.mul_(2)",
        "d=b.sum()",
        "d.backward()",
    ),
    "set_view_of_a_leaf": (
        "a=torch.arange(6.,requires_grad=True)",
        "v=a.view(2,3)",
        "v.set_(torch.ones(4))",
        "v.sum().backward()",
    ),
    "set_detached_leaf": (
        "a=torch.arange(6.,requires_grad=True)",
        "v=a.detach()",
        "v.set_(torch.ones(4))",
        "v.mul_(2)",
    ),
    "set_detached": (
        "a=torch.arange(6.)",
        "v=a.detach()",
        "v.set_(torch.ones(4))",
        "v.mul_(2)",
    ),
    "set_view_to_something_tracked": (
        "a=torch.arange(6.)",
        "v=a.view(2,3)",
        "v.set_(torch.ones(4,requires_grad=True))",
        "v.mul_(2)",
        "a.mul_(3)",
    ),
    "base_set_to_something_tracked": (
        "a=torch.arange(6.)",
        "v=a.view(2,3)",
        "a.set_(torch.ones(4,requires_grad=True)*1)",
        "v.mul_(2)",
        "a.mul_(3)",
    ),
    "base_written_to_before_view_is_set": (
        "a=torch.arange(6.)",
        "b=torch.ones(6,requires_grad=True)",
        "v=a.view(2,3)",
        "a.mul_(b)",
        "v.set_(torch.zeros(2))",
        "v.mul_(2)",
        "a.mul_(3)",
    ),
    "base_written_to_after_view_is_set": (
        "a=torch.arange(6.)",
        "b=torch.ones(6,requires_grad=True)",
        "v=a.view(2,3)",
        "v.set_(torch.zeros(2))",
        "a.mul_(b)",
        "c=v*2",
    ),
    "view_set_and_written_to": (
        "a=torch.arange(6.)",
        "b=torch.ones(6,requires_grad=True)",
        "v=a.view(2,3)",
        "v.set_(torch.zeros(2))",
        "v.mul_(b[:2])",
        "c=a*2",
    ),
    "view_made_unrecorded_and_set": (
        "a=torch.arange(6.)",
        "with torch.no_grad(): v=a.view(2,3)",
        "with torch.no_grad(): v.set_(torch.zeros(2))",
        "v.mul_(2)",
    ),
    "view_of_tracked_made_unrecorded_and_set": (
        "a=torch.arange(6.,requires_grad=True)*1",
        "with torch.no_grad(): v=a.view(2,3)",
        "with torch.no_grad(): v.set_(torch.zeros(2))",
        "v.mul_(2)",
    ),
    "view_set_unrecorded": (
        "a=torch.arange(6.,requires_grad=True)*1",
        "v=a.view(2,3)",
        "with torch.no_grad(): v.set_(torch.zeros(2))",
        "v.mul_(2)",
        "v.sum().backward()",
    ),
    "base_set_unrecorded": (
        "a=torch.arange(6.,requires_grad=True)*1",
        "v=a.view(2,3)",
        "with torch.no_grad(): a.set_(torch.zeros(2))",
        "a.mul_(2)",
        "v.mul_(2)",
    ),
    "data_of_the_base": (
        "a=torch.arange(6.)",
        "v=a.view(2,3)",
        "a.data=torch.ones(2)",
        "v.add_(1)",
        "a.mul_(3)",
    ),
    "data_of_a_view": (
        "a=torch.arange(6.)",
        "v=a.view(2,3)",
        "v.data=torch.ones(2)",
        "v.add_(1)",
        "a.mul_(3)",
    ),
    "data_of_a_tracked_view": (
        "a=torch.arange(6.,requires_grad=True)*1",
        "v=a.view(2,3)",
        "v.data=torch.ones(2)",
        "v.add_(1)",
        "a.mul_(3)",
    ),
    "data_of_a_tracked_base": (
        "a=torch.arange(6.,requires_grad=True)*1",
        "v=a.view(2,3)",
        "a.data=torch.ones(2)",
        "a.add_(1)",
        "v.mul_(3)",
    ),
    "result_saved_before_set": (
        "a=torch.arange(3.,requires_grad=True)",
        "b=a.exp()",
        "c=b*1",
        "b.set_(torch.ones(3))",
        "c.sum().backward()",
    ),
    "constant_saved_before_set": (
        "a=torch.arange(3.)",
        "b=torch.arange(3.,requires_grad=True)",
        "c=b*a",
        "a.set_(torch.ones(3))",
        "c.sum().backward()",
    ),
    "view_saved_before_its_base_is_set": (
        "a=torch.arange(3.)",
        "v=a[:2]",
        "b=torch.arange(2.,requires_grad=True)",
        "c=b*v",
        "a.set_(torch.ones(3))",
        "c.sum().backward()",
    ),
    "base_saved_before_its_view_is_set": (
        "a=torch.arange(3.)",
        "v=a[:2]",
        "b=torch.arange(3.,requires_grad=True)",
        "c=b*a",
        "v.set_(torch.ones(3))",
        "c.sum().backward()",
    ),
    "backward_through_a_view_that_lost_its_memory": (
        "a = torch.arange(6.0, requires_grad=True) * 1; v = a.view(2, 3)",
        "with torch.no_grad(): a.set_(torch.zeros(2))",
        "v.mul_(2)",
        "v.sum().backward()",
    ),
    "write_by_index_to_what_overlaps_itself": (
        "x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True); a = x * 1; v = a.as_strided((2, 3), (0, 1))",
        "v[torch.tensor([0])] = 0.5",
        "v.sum().backward()",
        "b = x * 1; w = b.as_strided((2, 3), (0, 1)); w[w > 0] *= 0.5",
        "w.sum().backward()",
        "(b * 2).sum().backward()",
    ),
    "no_derivative_and_no_gradient": (
        "x = torch.tensor([0.0, -1.9], requires_grad=True); y = x // 2",
        "class F(torch.autograd.Function): forward = staticmethod(lambda ctx, x: x * 1); "
        "backward = staticmethod(lambda ctx, g: None)",
        "z = F.apply(y)",
        "z.sum().backward(retain_graph=True)",
        "z.sum().backward(create_graph=True)",
    ),
    "logcumsumexp_of_a_number": (
        "x = torch.tensor(2.0, requires_grad=True); y = x.logcumsumexp(0)",
        "g = torch.tensor(3.0, requires_grad=True)",
        "a, = torch.autograd.grad(y, x, torch.tensor(3.0), create_graph=True)",
        "b, = torch.autograd.grad(x.logcumsumexp(-1), x, g, create_graph=True); c = b is g",
        "d = torch.tensor(float('inf'), requires_grad=True); d.logcumsumexp(0).backward()",
        "e = x.logcumsumexp(0); e.mul_(2); e.backward()",
        "x.logcumsumexp(1)",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, same: Any) -> None:
    def run(m: Any) -> Any:
        return play(m, PROGRAMS[name])

    run.__name__ = name
    same(run)
