"""`step.lower(*args)` shows a program without running it; `step.explain()` says what the programs do."""

from types import SimpleNamespace

import jax
import pytest

import torchgrad_jax as torch


def training():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    opt = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
    counter = {"n": 0}

    @torch.compile
    def step(x, i):
        opt.zero_grad()
        loss = net(x)[i].square().mean()
        loss.backward()
        opt.step()
        schedule.step()
        counter["n"] += 1
        return loss

    def state():
        moments = [{k: v.tolist() for k, v in s.items()} for s in opt.state.values()]
        return (
            [(p.tolist(), p._version, p.grad is None) for p in net.parameters()],
            moments,
            schedule.last_epoch,
            opt.param_groups[0]["lr"],
            dict(counter),
            torch.get_rng_state().tolist(),
        )

    return step, state


ARGS = (torch.ones(3, 4), torch.tensor([0, 1]))


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_looking_changes_nothing(calls):
    step, state = training()
    other, _ = training()
    torch.manual_seed(1)
    for _ in range(calls):
        step(*ARGS)
    before, run = state(), step.counts["run"]
    program = step.lower(*ARGS)
    assert state() == before
    assert step.counts["run"] == run
    assert "dot_general" in program.as_text()
    torch.manual_seed(1)
    for _ in range(calls):
        other(*ARGS)
    losses = []
    for f in (step, other):
        torch.manual_seed(2)
        losses.append(f(*ARGS))
    torch.testing.assert_close(*losses)


def test_what_a_program_costs():
    program = torch.compile(lambda x, y: x @ y).lower(torch.ones(8, 16), torch.ones(16, 4))
    assert program.cost_analysis()["flops"] == pytest.approx(2 * 8 * 16 * 4, rel=0.1)
    sizes = program.memory_analysis()
    assert sizes.argument_size_in_bytes == 4 * (8 * 16 + 16 * 4)
    assert sizes.output_size_in_bytes >= 4 * 8 * 4
    assert "HloModule" in program.optimized_text()
    assert program.collectives() == []
    assert isinstance(program.compile(), jax.stages.Compiled)


def test_what_is_overwritten_needs_no_memory_of_its_own():
    held = torch.zeros(1000)

    @torch.compile
    def add(x):
        held.add_(x)

    sizes = add.lower(torch.ones(1000)).memory_analysis()
    assert sizes.alias_size_in_bytes == 4000


def test_a_result_with_a_graph_has_two_programs():
    w = torch.ones(4, 2, requires_grad=True)
    program = torch.compile(lambda x: (x @ w).sin().sum()).lower(torch.ones(3, 4))
    assert "sine" in program.as_text()
    assert "cosine" in program.backward.as_text() + program.as_text()
    assert program.backward.backward is None


@pytest.mark.parametrize("part", ["forward", "backward"])
def test_products_under_autocast_are_of_the_lower_precision(part):
    net = torch.nn.Linear(8, 8, bias=False)

    @torch.compile
    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = net(x).float().square().sum()
        if part == "backward":
            net.zero_grad()
            loss.backward()
        return loss.detach()

    text = step.lower(torch.ones(4, 8)).as_text()
    dots = [line for line in text.splitlines() if "dot_general" in line]
    assert len(dots) == (2 if part == "backward" else 1)
    assert all("xbf16>, tensor" in line for line in dots), dots


@pytest.mark.parametrize("part", ["attention", "many heads", "a layer with dropout"])
def test_products_of_attention_under_autocast_are_of_the_lower_precision(part):
    """Forward and backward; without dropout and with it."""
    w = torch.nn.Linear(8, 24)
    heads = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)

    def attention(x):
        q, k, v = w(x).view(2, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    parts = {
        "attention": attention,
        "many heads": lambda x: heads(x, x, x, need_weights=False)[0],
        "a layer with dropout": layer,
    }

    @torch.compile
    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = parts[part](x).float().square().sum()
        loss.backward()
        return loss.detach()

    text = step.lower(torch.ones(2, 6, 8)).as_text()
    dots = [line for line in text.splitlines() if "dot_general" in line]
    assert len(dots) >= 8
    assert all("xbf16>, tensor" in line for line in dots), dots


def test_collectives_are_read_off_the_text(monkeypatch):
    program = torch.compile(lambda x: x + 1).lower(torch.ones(2))
    text = """
      %all-reduce.1 = f32[2,8]{1,0} all-reduce(%dot), channel_id=1, replica_groups={{0,1}}, to_apply=%add
      %ag = (f32[4]{0}, f32[8]{0}) all-gather-start(%p), dimensions={0}
      %x = f32[2]{0} add(%all-reduce.1, %ag)
    """
    monkeypatch.setattr(program, "optimized_text", lambda: text)
    assert program.collectives() == [("all-reduce", "f32[2,8]"), ("all-gather", "(f32[4], f32[8])")]


@pytest.mark.parametrize("first", ["cache", "attribute", "module"])
def test_what_a_first_call_does_once_hides_no_program(first, tmp_path, monkeypatch):
    """As a call does, `lower` makes more than one attempt; afterwards nothing of them is left."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "met_in_the_first_call.py").write_text("factor = 2.0")
    held = SimpleNamespace(cache={})

    def step(x):
        if first == "module":
            import met_in_the_first_call

            return x * met_in_the_first_call.factor
        if first == "attribute" and not hasattr(held, "factor"):
            held.factor = 2.0
        return x * (held.cache.setdefault("factor", 2.0) if first == "cache" else held.factor)

    fast = torch.compile(step)
    assert "multiply" in fast.lower(torch.ones(2)).as_text()
    assert vars(held) == {"cache": {}}
    assert fast(torch.ones(2)).tolist() == [2.0, 2.0]
    assert fast.counts["eager"] == 0, fast.reasons


def test_a_function_that_is_not_compiled_has_no_program():
    fast = torch.compile(lambda x: x)
    fast.patience.written = True
    with pytest.raises(RuntimeError, match="no program to look at"):
        fast.lower(torch.ones(1))


def test_what_is_explained(capsys):
    step, _ = training()
    for _ in range(3):
        step(*ARGS)
    step.explain()
    text = capsys.readouterr().out
    for line in (
        "1 program; traced once, run 3 times, eager 0 times",
        "arguments               float32 (3, 4), int64 (2,)",
        "net.0.weight float32 (4, 4)",
        "opt.state[net.0.weight]['exp_avg'] float32 (4, 4)",
        "replaces gradients of   net.0.weight, net.0.bias",
        "random numbers          1 draws, 12 bytes",
        "carried numbers         1",
        "checks                  1 before the program, 0 in it",
    ):
        assert line in text, text


def test_modules_have_both(capsys):
    net = torch.compile(torch.nn.Linear(2, 1))
    assert "dot_general" in net.lower(torch.ones(3, 2)).as_text()
    net(torch.ones(3, 2))
    net.explain()
    assert "a program of its own" in capsys.readouterr().out


def test_what_is_part_of_a_checkpoint_says_why_it_has_no_program():
    net = torch.compile(torch.nn.Linear(2, 2))
    x = torch.ones(1, 2, requires_grad=True)
    torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False).sum().backward()
    (why,) = net.reasons
    assert "hooks of saved tensors (as in a checkpoint)" in why
    assert net.counts["traced"] == 0
