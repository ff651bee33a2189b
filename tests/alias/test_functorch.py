"""The package functorch, which comes with torch: its transforms, and modules as functions in the older way."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import warnings, torch, functorch, functorch.einops, functorch.experimental
from functorch import combine_state_for_ensemble, grad, make_functional, make_functional_with_buffers, vmap
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    print(grad(lambda x: (x * x).sum())(torch.ones(2)))
text = str(seen[0].message)
print(seen[0].category.__name__, "Please use `torch.func.grad` instead" in text, seen[0].filename == __file__)
warnings.simplefilter("ignore")
net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
with torch.no_grad():
    net[0].weight.fill_(0.5); net[0].bias.zero_()
f, params, buffers = make_functional_with_buffers(net)
f(params, buffers, torch.ones(2, 2))
print(len(params), len(buffers), params[0] is net[0].weight, net[1].running_mean, buffers[0])
shared = torch.nn.Linear(2, 2)
f, params = make_functional(torch.nn.Sequential(shared, shared), disable_autograd_tracking=True)
print(f.param_names, f.names_map, [p.requires_grad for p in params])
for bad in (lambda: make_functional(net), lambda: combine_state_for_ensemble([])):
    try: bad()
    except RuntimeError as e: print(e)
f, params, buffers = combine_state_for_ensemble([torch.nn.Linear(1, 2) for _ in range(3)])
print([tuple(p.shape) for p in params], buffers, vmap(f, (0, 0, None))(params, buffers, torch.ones(4, 1)).shape)
try: functorch.einops.rearrange(torch.ones(2, 3), "a b -> b a")
except NotImplementedError as e: print("einops.rearrange" in str(e), functorch.experimental.jvp.__name__)
try: functorch.nothing
except AttributeError as e: print("functorch.nothing" in str(e))
"""

EXPECTED = """\
tensor([2., 2.])
FutureWarning True True
4 3 False tensor([0., 0., 0.]) tensor([0.1000, 0.1000, 0.1000])
('0.weight', '0.bias') {'0.weight': ['0.weight', '1.weight'], '0.bias': ['0.bias', '1.bias']} [False, False]
make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.
combine_state_for_ensemble: Expected at least one model, got 0.
[(3, 2, 1), (3, 2)] () torch.Size([3, 4, 2])
True jvp
True
"""


def test_a_program_with_functorch(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-m", "torchgrad_jax", str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        timeout=300,
    )
    assert done.stderr == ""
    assert done.stdout == EXPECTED
