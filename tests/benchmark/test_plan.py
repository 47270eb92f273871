"""A wrong plan is refused before anything runs, with the line of the file."""

import tomllib

import pytest
import torch
from torch import nn

from sitta.adaptation import methods
from sitta.benchmark.cells import (
    asked_variants,
    expand,
    models,
    sweep_variants,
)
from sitta.benchmark.toml import File, PlanError
from sitta.errors import InvalidSetting
from tests.benchmark.tiny import PLAN, make, reading


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "tent"', 'name = "tentt"', ("no such method", "tent, sar", "'tentt'")),
        ('["alder", "birch"]', '["alder",\n "oak"]', ("no domain phantom/oak", "phantom/birch")),
        ('["alder", "birch"]', '["alder"]', ("two domains",)),
        ('["alder", "birch"]', '["alder", "alder"]', ("'alder' twice",)),
        ("[1.0, 0.5, 0.0]", "[1.0, 1.5]", ("lambda is out of range", ">= 0 and <= 1", "1.5")),
        ("[1.0, 0.0]", "[1.0, -0.1]", ("lambda is out of range", "-0.1")),
        ('["vote", "ent-baln"]', '["vote", "ent-bal"]', ("'ent-bal'", "ent-baln")),
        ('["vote", "ent-baln"]', '["sharpness"]', ("[[methods]]",)),
        ("views = 2", "view = 2", ("no setting 'view'", "views")),
        ("views = 2", "views = -1", ("views", ">= 0")),
        ("repeats = 2", "repeats = 0", ("'repeats' is below 1",)),
        ("repeats = 2", 'repeats = "two"', ("not a whole number", "'two'")),
        ("repeats = 2", "repeat = 2", ("no setting 'repeat'", "repeats")),
        ("steps = 2", "stepps = 2", ("no setting 'stepps'", "steps")),
        ("batch = 4", "batch = 1", ("batch", ">= 2")),
        ("size = [16, 16]", "sice = [16, 16]", ("no setting 'sice'", "size")),
        ('task = "phantom"', 'task = "phantoms"', ("no task 'phantoms'", "phantom")),
        ('source = "alder"', 'source = "elm"', ("no domain phantom/elm", "alder, birch")),
        ('{ augment = "light" }', '{ augment = "some" }', ("augment", "none, light, strong")),
        ("[2, 3, 6]", "[1, 3]", ("2 members or more",)),
        ("[2, 3, 6]", "[]", ("'members' is empty",)),
        ("[2, 3, 6]", "[2, 3]\nrepeats = 3", ("'repeats' is above those of the plan, 2", "3")),
        ("[1.0, 0.5, 0.0]", "[0.5, 0.0]", ("'lambdas' lacks 1", "source model")),
        ("[1.0, 0.5, 0.0]", "[]", ("'lambdas' lacks 1",)),
        ("repeats = 2", "repeats = 2\ntolerance = -1", ("'tolerance' is not above 0", "-1")),
        ("repeats = 2", "repeats = 2\ntolerance = nan", ("'tolerance' is not above 0", "nan")),
        ("steps = 2", "steps = 2\nseed = 7", ("repeat r has seed r",)),
        ('{ augment = "light" }', '{ augment = "light", seed = 3 }', ("repeat r has seed r",)),
        ("[1.0, 0.0]", "[1.0, 0.0]\nsettings = { lam = 0.5 }", ("'lam' is set beside",)),
        ("[tasks.phantom]", '[tasks."a/b"]\nfolder = "phantom"', ("no name for a task", "'a/b'")),
        ("[tasks.phantom]", '[tasks.".."]\nfolder = "phantom"', ("no name for a task", "'..'")),
        ('data = "data"', 'data = "nowhere"', ("no folder", "nowhere")),
        ('data = "data"', 'data = "$NOT_SET_ANYWHERE"', ("$NOT_SET_ANYWHERE", "--data")),
        ("views = 2 }", "views = 2 ", ("not TOML", "line")),
    ],
)
def test_a_wrong_plan_is_refused_with_its_line(folder, old, new, words):
    assert old in PLAN
    text = PLAN.replace(old, new, 1)
    with pytest.raises(PlanError) as caught:
        reading(folder, text)
    said = str(caught.value)
    assert all(word in said for word in words), said
    if "not TOML" in said:
        return
    changed = [n for n, line in enumerate(text.splitlines(), 1) if line not in PLAN.splitlines()]
    line = int(said.split("line ")[1].split(":")[0])
    # A mistake that shows only in the whole is told at the head of its table.
    assert line in changed or text.splitlines()[line - 1].startswith("["), (said, changed)
    exact = ("tentt", "oak", "1.5", "-0.1", "ent-bal'", "repeat", "stepps", "phantoms", "elm")
    exact += ("'view'", "'sice'")
    if any(word in said for word in exact):
        assert line in changed, (said, changed)


def refused(folder, text):
    """What is said of a plan, and the line that it is said of."""
    with pytest.raises(PlanError) as caught:
        reading(folder, text)
    said = str(caught.value)
    return said, text.splitlines()[int(said.split("line ")[1].split(":")[0]) - 1]


SIZE = "size = [16, 16]"


@pytest.mark.parametrize(
    ("lines", "at", "words"),
    [
        ([SIZE, 'scale = "foo"'], 'scale = "foo"', ("scale is out of range", "min-max")),
        ([SIZE, 'fit = "crop"', "channels = 0"], "channels = 0", ("channels is out of range",)),
        (["size = [16]", 'plane = "axial"'], "size = [16]", ("one number a side", "Allowed: 2")),
        (['plane = "x"', 'scale = "y"'], "[tasks.phantom]", ("out of range",)),
        (['plane = "axial"', 'fit = "none"', SIZE], 'fit = "none"', ("no size", "What to do")),
    ],
)
def test_preprocessing_is_refused_at_the_key_that_is_wrong(folder, lines, at, words):
    said, line = refused(folder, PLAN.replace(SIZE, "\n".join(lines)))
    assert line == at
    assert all(word in said for word in words), said


def test_fit_none_drops_the_size_of_the_preset_and_nothing_else(tmp_path):
    make(tmp_path)
    (tmp_path / "data/phantom").rename(tmp_path / "data/spinal")
    task = '[tasks.spinal]\ndomains = ["alder", "birch"]\n{}\n'
    for change in ('fit = "none"', 'fit = "none"\nchannels = 3'):
        (made,) = reading(tmp_path, 'data = "data"\n' + task.format(change)).tasks
        assert (made.preprocess.fit, made.preprocess.size) == ("none", None)
        assert made.preprocess.spacing == (0.5, 0.5)
    assert made.preprocess.channels == 3


AGAIN = """
[[retrained]]
name = "augmented"
task = "phantom"
source = "{source}"
train = {{ augment = "{how}" }}
"""


def test_a_name_is_one_way_of_training_and_one_model(folder):
    both = reading(folder, PLAN + AGAIN.format(source="birch", how="light"))
    assert [m.source for m in models(both) if m.training == "augmented"] == ["alder", "birch"]
    with pytest.raises(PlanError, match="'augmented' is the name of two ways of training"):
        reading(folder, PLAN + AGAIN.format(source="birch", how="strong"))
    with pytest.raises(PlanError, match="Two models would have the name phantom-alder-augmented"):
        reading(folder, PLAN + AGAIN.format(source="alder", how="light"))


def test_a_model_that_is_asked_for_twice_is_refused_where_it_is_the_second_time(folder):
    once = AGAIN.format(source="birch", how="light")
    text = PLAN + once + once.replace("[[retrained]]", "[[retrained]] # again")
    said, line = refused(folder, text)
    assert line == "[[retrained]] # again"
    assert "Two models would have the name phantom-birch-augmented-r0" in said
    assert "What to do: leave one out" in said


def test_two_tasks_whose_models_have_one_name_are_refused_at_the_second(tmp_path):
    make(tmp_path)
    data = tmp_path / "data"
    for folder, domain, like in (("a", "b-c", "alder"), ("a", "d", "birch"), ("a-b", "c", "alder")):
        (data / folder).mkdir(exist_ok=True)
        (data / folder / domain).symlink_to(data / "phantom" / like)
    (data / "a-b" / "e").symlink_to(data / "phantom" / "birch")
    text = (
        'data = "data"\n[tasks.a]\ndomains = ["b-c", "d"]\n[tasks.a-b]\ndomains = [\n"e",\n"c",\n]'
    )
    said, line = refused(tmp_path, text)
    assert line == '"c",'
    assert "the name a-b-c-r0: a/b-c (plain) and a-b/c (plain)" in said


@pytest.mark.parametrize("name", methods())
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('activation = "softmax"', ("softmax over one channel", "What to do: use activation=")),
        ('output = "x"', ("no output 'x'", "What to do: leave output= out")),
        ("output = 0", ("no output 0",)),
    ],
)
def test_what_does_not_fit_the_networks_of_a_plan_is_refused_at_its_line(
    folder, name, setting, words
):
    table = f'\n[[methods]]\nname = "{name}"\n[methods.settings]\nactivation = "sigmoid"\n'
    if "activation" in setting:
        table = table.replace('activation = "sigmoid"\n', "")
    reading(folder, PLAN + table)
    said, line = refused(folder, PLAN + table + setting)
    assert line == setting
    assert all(word in said for word in words), said
    # The check runs one method for all: this one would have failed on every image.
    method = methods()[name](nn.BatchNorm2d(1), **tomllib.loads(setting))
    with pytest.raises(InvalidSetting, match=words[0]):
        method(torch.rand(1, 8, 8))


def test_a_setting_that_is_the_default_makes_no_other_variant(folder):
    more = "".join(
        f'\n[[methods]]\nname = "{name}"\nsettings = {{ {settings} }}\n'
        for name, settings in (
            ("fseg", ""),
            ("fseg", "steps = 1, rate = 0.001"),
            ("fseg", 'activation = "auto"'),
            ("fseg", "steps = 2, rate = 0.001"),
            ("sita", 'op = "vote", views = 2, seed = 0'),  # as in the plan
            ("sita", 'op = "vote", views = 8'),
        )
    )
    plan = reading(folder, PLAN + more)
    assert [str(v) for v in asked_variants(plan)][2:] == [
        "sita-op=vote-views=2",
        "fseg",
        "fseg-steps=2",
        "sita-op=vote",
    ]


@pytest.mark.parametrize(
    ("step", "members", "at"),
    [
        ("0.3", "[\n2,\n5,\n6,\n]", "5,"),
        ("0.3", "[\n2,\n4,\n6,\n]", None),  # numbers that the grid has not
        ("0.25", "[\n2,\n5,\n6,\n]", None),  # the same lambdas
        ("0.3333333333333333", "[\n4,\n]", None),
        ("0.142857143", "[\n8,\n]", None),  # up to the ninth digit
        ("0.1429", "[\n8,\n]", "8,"),
    ],
)
def test_a_sweep_over_as_many_other_lambdas_is_refused(folder, step, members, at):
    text = PLAN.replace("[2, 3, 6]", members).replace("[members]", f"[members]\nstep = {step}")
    if at is None:
        reading(folder, text)
        return
    said, line = refused(folder, text)
    assert line == at
    assert "not evenly spaced" in said
    assert "take another step in [members], or leave" in said


@pytest.mark.parametrize("old", ["[1.0, 0.5, 0.0]", "[1.0, 0.0]"])
@pytest.mark.parametrize(
    ("one", "two", "words"),
    [
        ("0.25", "0.25", "twice"),
        ("1", "1.0", "twice"),
        ("0.333333333", "0.3333333333", "first 9 digits"),
        ("1.0", "0.99999999999", "first 9 digits"),
    ],
)
def test_lambdas_of_one_name_are_refused_at_the_second(folder, old, one, two, words):
    first = "" if float(one) == 1 else "1.0,"
    text = PLAN.replace(old, f"[{first}\n{one}, # first\n{two}, # second\n]")
    said, line = refused(folder, text)
    assert line == f"{two}, # second"
    assert words in said


def test_lambdas_that_have_names_of_their_own_are_not_refused(folder):
    text = PLAN.replace("[1.0, 0.0]", "[0.33333333, 0.333333333]")
    plan = reading(folder, text)
    assert len({str(v) for v in asked_variants(plan)}) == 3


def test_what_members_serve_on_all_images_is_not_asked_for_on_the_draw(folder):
    more = '\n[[methods]]\nname = "source"\nlambdas = [0.5]\n'
    more += '\n[[methods]]\nname = "intent"\nsettings = { strategy = "vote" }\n'
    more += '\n[[methods]]\nname = "intent"\nsettings = { lambdas = [1.0, 0.5, 0.0] }\n'
    more += '\n[[methods]]\nname = "intent"\nsettings = { lambdas = [1.0, 0.3, 0.0] }\n'
    swept = PLAN.replace('["ent-baln"]', '["ent-baln", "average"]')
    plan = reading(folder, swept + more)
    keys = [str(cell) for work in expand(plan) for cell in work.cells]
    assert len(set(keys)) == len(keys)
    assert [str(v) for v in asked_variants(plan)][3:] == [
        "intent-lambdas=3",
        "intent-lambdas=1+0.3+0",
    ]
    assert [str(v) for v in sweep_variants(plan)] == [
        "intent-lambdas=2-strategy=ent-baln",
        "intent-lambdas=2-strategy=average",
        "intent-lambdas=3-strategy=average",  # with ent-baln, its default, it is asked for above
        "intent-lambdas=6-strategy=average",  # the members have ent-baln at six, and not this
    ]


def test_one_variant_under_two_names_is_run_once(folder):
    more = "".join(
        f"\n[[methods]]\n{text}\n"
        for text in (
            'name = "intent"',
            'name = "intent"\nsettings = { step = 0.2 }',
            'name = "source"',
            'name = "fseg"\nlambdas = [0.5, 0.0]\ndefault = true',
        )
    )
    plan = reading(folder, PLAN + more)
    assert [str(v) for v in asked_variants(plan)][3:] == ["fseg-lam=0.5", "fseg-lam=0"]
    for work in expand(plan):
        seen = [cell.variant.identity(plan.step) for cell in work.cells]
        assert len({*seen}) == len(seen)


def test_lines_of_tables_lists_and_inner_values(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(
        "a = 1\n\n[[m]]\nx = 1\n\n[[m]] # second\nx = [\n  1,\n  2,\n]\n[m.s]\n'y' = 3\nz.w = 4\n"
    )
    file, _ = File.read(path)
    assert file.line(("a",)) == 1
    assert file.line(("m", 0, "x")) == 4
    assert file.line(("m", 1)) == 6
    assert file.line(("m", 1, "x")) == 7
    assert file.line(("m", 1, "x", 1)) == 9
    assert file.line(("m", 1, "x", 5)) == 7
    assert file.line(("m", 1, "s", "y")) == 12
    assert file.line(("m", 1, "s", "z", "w")) == 13
    assert file.line(("m", 1, "s", "missing")) == 11
    assert file.line(("nothing",)) == 1


INLINE = """\
data = "data"
methods = [
  # {name = "none"},
  {name = "tent", lambdas = [1.0, 0.0]},
  {name = "sita", settings = {op = "vote", views = 2}},

  {name = "memo", default = true, lambdas = [
    0.5,  # ]
    0.0,
  ]},
]

[tasks.phantom]
domains = ["alder", "birch"]
size = [16, 16]
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"tent"', '"tennt"', 4, "no such method"),
        ('name = "tent", ', "", 4, "[methods] has no 'name'"),
        ("[1.0, 0.0]", "[1.0, 1.5]", 4, "lambda is out of range"),
        ("views = 2", "view = 2", 5, "no setting 'view'"),
        ("views = 2", "views = -1", 5, "views"),
        ("default = true", "defaults = true", 7, "no setting 'defaults'"),
        ("0.5,", "-1,", 8, "lambda is out of range"),
        ("    0.0,", "    0.5,", 9, "'lambdas' holds 0.5 twice"),
        ("    0.0,", '    "a",', 9, "what is not a number"),
        ("]},\n]", "]},\n  3,\n]", 11, "not a list of tables"),
    ],
)
def test_a_mistake_in_a_list_of_tables_has_its_own_line(folder, old, new, line, words):
    assert INLINE.count(old) == 1
    reading(folder, INLINE)
    with pytest.raises(PlanError) as caught:
        reading(folder, INLINE.replace(old, new))
    assert f", line {line}: " in str(caught.value), str(caught.value)
    assert words in str(caught.value)
