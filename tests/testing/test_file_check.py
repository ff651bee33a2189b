"""torch.testing.FileCheck: which texts pass a chain of checks, and the first line of its error; against torch."""

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, first_line

program = Programs()
test_same_as_torch = program.test()

TEXT = "one two three\nfour five\nsix seven two\neight"
MARKED = "one two\n five a\n ~~~~ <--- HERE\n"


def outcomes(m, *chains, text=TEXT):
    check = m.testing.FileCheck
    return [first_line(lambda chain=chain: chain(check()).run(text)) for chain in chains]


@program
def strings_in_order(m):
    return outcomes(
        m,
        lambda c: c.check("one").check("five"),
        lambda c: c.check("nope"),
        lambda c: c.check("five").check("one"),
        lambda c: c.check("one").check("one"),
        lambda c: c.check(""),
    )


@program
def strings_that_must_not_stand_there(m):
    return outcomes(
        m,
        lambda c: c.check_not("six"),
        lambda c: c.check("one").check_not("four").check("six"),
        lambda c: c.check("one").check_not("eight").check("six"),
        lambda c: c.check("one").check_not("two"),
        lambda c: c.check_not("zzz").check_not("yyy").check("one"),
        lambda c: c.check_dag("five").check_not("seven").check_dag("eight"),
    )


@program
def strings_on_a_line(m):
    return outcomes(
        m,
        lambda c: c.check("one").check_same("three"),
        lambda c: c.check("one").check_same("four"),
        lambda c: c.check("one").check_next("four"),
        lambda c: c.check("one").check_next("six"),
        lambda c: c.check_next("one"),
        lambda c: c.check_next("four"),
        lambda c: c.check("eight").check_next("x"),
    )


@program
def a_line_that_repeats_the_one_before(m):
    return outcomes(m, lambda c: c.check("a").check_next("b"), lambda c: c.check("b").check_next("b"), text="a b\n b")


@program
def counts(m):
    return outcomes(
        m,
        lambda c: c.check_count("two", 2),
        lambda c: c.check_count("two", 1),
        lambda c: c.check_count("two", 1, exactly=True),
        lambda c: c.check_count("two", 3),
        lambda c: c.check_count("xx", 0, True),
        lambda c: c.check_count("one", 1).check_count("two", 2, exactly=True).check("eight"),
    )


@program
def strings_in_any_order(m):
    return outcomes(
        m,
        lambda c: c.check_dag("five").check_dag("one").check("six"),
        lambda c: c.check_dag("five").check_dag("none"),
        lambda c: c.check_dag("five").check_dag("one").check("four"),
    )


@program
def regular_expressions(m):
    return outcomes(
        m,
        lambda c: c.check_regex(r"f[io]\w+ five"),
        lambda c: c.check_regex("zz+"),
        lambda c: c.check_regex("five$"),
        lambda c: c.check_regex("one.*four"),
    )


@program
def marks_below(m):
    found = outcomes(m, *[lambda c, s=s: c.check_source_highlighted(s) for s in ("five", "one", "six")], text=MARKED)
    for text in ("xone\n~~~~\n\n", "onex\n~~~~\n\n", "one\n ~~\n\n", "five"):
        found += outcomes(m, lambda c: c.check_source_highlighted("one"), text=text)
    return found


@program
def checks_in_a_text(m):
    texts = (
        "# CHECK: one\n# CHECK-NEXT: four\nsomething else",
        "# CHECK-COUNT-EXACTLY-2: two\n",
        "# CHECK-COUNT-3: two\n",
        "# CHECK-NOT: one",
        "# CHECK-DAG: six\n# CHECK-DAG: one\n#   CHECK-REGEX: e.g.t",
        "#CHECK: nope",
        "# CHECK-FOO: o.e",
        "# CHECK one",
        "",
        "CHECK: one",
    )
    return [first_line(lambda t=t: m.testing.FileCheck().run(t, TEXT)) for t in texts]


@program
def a_chain_is_one_object_and_runs_often(m):
    c = m.testing.FileCheck()
    return c.check("x") is c, c.run("x"), first_line(lambda: c.run("y")), type(c).__module__.startswith("torch")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: c.check(3), TypeError),
        (lambda c: c.check_count("a", -1), TypeError),
        (lambda c: c.check_count("a", 0), RuntimeError),
        (lambda c: c.check("a").run(3), TypeError),
        (lambda c: c.check_regex("o(n").run("one"), RuntimeError),
        (lambda c: c.run("one"), RuntimeError),
    ],
)
def test_bad_arguments_are_refused(call, error):
    with pytest.raises(error):
        call(tg.testing.FileCheck())


def test_a_chain_that_never_ran_is_printed(capsys):
    c = tg.testing.FileCheck().check("a")
    del c
    assert capsys.readouterr().out == "You have not run this instance of FileCheck!\nFileCheck checks:\n\tCHECK: a\n"
