"""A wrong plan is refused before anything runs, with the place of the mistake."""

import tomllib

import pytest
import torch
from torch import nn

from sitta.adaptation import methods
from sitta.bench.plan.cells import (
    expand,
    models,
    requests,
)
from sitta.bench.plan.errors import PlanError
from sitta.errors import InvalidSetting
from tests.bench.tiny import PLAN, make, reading


@pytest.mark.parametrize(
    ("old", "new", "where", "words"),
    [
        (
            'name = "tent"',
            'name = "tentt"',
            "methods[0].name",
            ("no such method", "tent, sar", "'tentt'"),
        ),
        (
            '["alder", "birch"]',
            '["alder",\n "oak"]',
            "tasks.phantom.domains[1]",
            ("no domain phantom/oak", "phantom/birch"),
        ),
        ('["alder", "birch"]', '["alder"]', "tasks.phantom.domains", ("two domains",)),
        (
            '["alder", "birch"]',
            '["alder", "alder"]',
            "tasks.phantom.domains[1]",
            ("'alder' twice",),
        ),
        (
            "[1.0, 0.5, 0.0]",
            "[1.0, 1.5]",
            "members.lambdas[1]",
            ("lambda is out of range", ">= 0 and <= 1", "1.5"),
        ),
        ("[1.0, 0.0]", "[1.0, -0.1]", "methods[0].lambdas[1]", ("lambda is out of range", "-0.1")),
        (
            '["vote", "ent-baln"]',
            '["vote", "ent-bal"]',
            "members.strategies[1]",
            ("'ent-bal'", "ent-baln"),
        ),
        ('["vote", "ent-baln"]', '["sharpness"]', "members.strategies[0]", ("[[methods]]",)),
        ("views = 2", "view = 2", "methods[1].settings.view", ("no setting 'view'", "views")),
        ("views = 2", "views = -1", "methods[1].settings.views", ("views", ">= 0")),
        ("repeats = 2", "repeats = 0", "repeats", ("'repeats' is below 1",)),
        ("repeats = 2", 'repeats = "two"', "repeats", ("not a whole number", "'two'")),
        ("repeats = 2", "repeat = 2", "repeat", ("no setting 'repeat'", "repeats")),
        ("steps = 2", "stepps = 2", "train.stepps", ("no setting 'stepps'", "steps")),
        ("batch = 4", "batch = 1", "train.batch", ("batch", ">= 2")),
        ("size = [16, 16]", "sice = [16, 16]", "tasks.phantom.sice", ("no setting 'sice'", "size")),
        (
            'task = "phantom"',
            'task = "phantoms"',
            "retrained[0].task",
            ("no such task. Did you mean 'phantom'", "'phantoms'"),
        ),
        (
            'source = "alder"',
            'source = "elm"',
            "retrained[0].source",
            ("no such domain", "alder, birch", "'elm'"),
        ),
        (
            '{ augment = "light" }',
            '{ augment = "some" }',
            "retrained[0].train.augment",
            ("augment", "none, light, strong"),
        ),
        ("[2, 3, 6]", "[1, 3]", "sweep.members[0]", ("2 members or more",)),
        ("[2, 3, 6]", "[]", "sweep.members", ("'members' is empty",)),
        (
            "[2, 3, 6]",
            "[2, 3]\nrepeats = 3",
            "sweep.repeats",
            ("'repeats' is above those of the plan, 2", "3"),
        ),
        ("[1.0, 0.5, 0.0]", "[0.5, 0.0]", "members.lambdas", ("'lambdas' lacks 1", "source model")),
        ("[1.0, 0.5, 0.0]", "[]", "members.lambdas", ("'lambdas' lacks 1",)),
        (
            "repeats = 2",
            "repeats = 2\ntolerance = -1",
            "tolerance",
            ("'tolerance' is not above 0", "-1"),
        ),
        (
            "repeats = 2",
            "repeats = 2\ntolerance = nan",
            "tolerance",
            ("'tolerance' is not above 0", "nan"),
        ),
        ("steps = 2", "steps = 2\nseed = 7", "train.seed", ("repeat r has seed r",)),
        (
            '{ augment = "light" }',
            '{ augment = "light", seed = 3 }',
            "retrained[0].train.seed",
            ("repeat r has seed r",),
        ),
        (
            "[1.0, 0.0]",
            "[1.0, 0.0]\nsettings = { lam = 0.5 }",
            "methods[0].settings.lam",
            ("'lam' is set beside",),
        ),
        (
            "[tasks.phantom]",
            '[tasks."a/b"]\nfolder = "phantom"',
            'tasks."a/b"',
            ("no name for a task", "'a/b'"),
        ),
        (
            "[tasks.phantom]",
            '[tasks.".."]\nfolder = "phantom"',
            'tasks.".."',
            ("no name for a task", "'..'"),
        ),
        ('data = "data"', 'data = "nowhere"', "data", ("no folder", "nowhere")),
        ('data = "data"', 'data = "$NOT_SET_ANYWHERE"', "data", ("$NOT_SET_ANYWHERE", "--data")),
        ("views = 2 }", "views = 2 ", "", ("not TOML", "line")),
    ],
)
def test_a_wrong_plan_is_refused_where_it_is_wrong(folder, old, new, where, words):
    assert old in PLAN
    said, place = refused(folder, PLAN.replace(old, new, 1))
    assert place == where
    assert all(word in said for word in words), said


def refused(folder, text):
    """What is said of a plan, and the place that it is said of."""
    with pytest.raises(PlanError) as caught:
        reading(folder, text)
    place, said = str(caught.value).removeprefix(f"{folder / 'other.toml'}").split(": ", 1)
    assert said
    return said, place.removeprefix(", ")


SIZE = "size = [16, 16]"


@pytest.mark.parametrize(
    ("lines", "at", "words"),
    [
        ([SIZE, 'scale = "foo"'], "tasks.phantom.scale", ("scale is out of range", "min-max")),
        (
            [SIZE, 'fit = "crop"', "channels = 0"],
            "tasks.phantom.channels",
            ("channels is out of range",),
        ),
        (
            ["size = [16]", 'plane = "axial"'],
            "tasks.phantom.size",
            ("one number a side", "Allowed: 2"),
        ),
        (['plane = "x"', 'scale = "y"'], "tasks.phantom", ("out of range",)),
        (['plane = "axial"', 'fit = "none"', SIZE], "tasks.phantom.fit", ("no size", "What to do")),
    ],
)
def test_preprocessing_is_refused_at_the_key_that_is_wrong(folder, lines, at, words):
    said, place = refused(folder, PLAN.replace(SIZE, "\n".join(lines)))
    assert place == at
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
    said, place = refused(folder, PLAN + once + once)
    assert place == "retrained[2]"
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
    said, place = refused(tmp_path, text)
    assert place == "tasks.a-b.domains[1]"
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
def test_what_does_not_fit_the_networks_of_a_plan_is_refused_at_its_setting(
    folder, name, setting, words
):
    table = f'\n[[methods]]\nname = "{name}"\n[methods.settings]\nactivation = "sigmoid"\n'
    if "activation" in setting:
        table = table.replace('activation = "sigmoid"\n', "")
    reading(folder, PLAN + table)
    said, place = refused(folder, PLAN + table + setting)
    assert place == f"methods[2].settings.{setting.split()[0]}"
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
    assert [str(v) for v in requests(plan)["methods"]][2:] == [
        "sita-op=vote-views=2",
        "fseg",
        "fseg-steps=2",
        "sita-op=vote",
    ]


@pytest.mark.parametrize(
    ("step", "members", "at"),
    [
        ("0.3", "[2, 5, 6]", "sweep.members[1]"),
        ("0.3", "[2, 4, 6]", None),  # numbers that the grid has not
        ("0.25", "[2, 5, 6]", None),  # the same lambdas
        ("0.3333333333333333", "[4]", None),
        ("0.142857143", "[8]", None),  # up to the ninth digit
        ("0.1429", "[8]", "sweep.members[0]"),
    ],
)
def test_a_sweep_over_as_many_other_lambdas_is_refused(folder, step, members, at):
    text = PLAN.replace("[2, 3, 6]", members).replace("[members]", f"[members]\nstep = {step}")
    if at is None:
        reading(folder, text)
        return
    said, place = refused(folder, text)
    assert place == at
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
    said, place = refused(folder, PLAN.replace(old, f"[{first} {one}, {two}]"))
    table = "members" if "0.5" in old else "methods[0]"
    assert place == f"{table}.lambdas[{2 if first else 1}]"
    assert words in said


def test_lambdas_that_have_names_of_their_own_are_not_refused(folder):
    text = PLAN.replace("[1.0, 0.0]", "[0.33333333, 0.333333333]")
    plan = reading(folder, text)
    assert len({str(v) for v in requests(plan)["methods"]}) == 3


def test_what_members_serve_on_all_images_is_not_asked_for_on_the_draw(folder):
    more = '\n[[methods]]\nname = "source"\nlambdas = [0.5]\n'
    more += '\n[[methods]]\nname = "intent"\nsettings = { strategy = "vote" }\n'
    more += '\n[[methods]]\nname = "intent"\nsettings = { lambdas = [1.0, 0.5, 0.0] }\n'
    more += '\n[[methods]]\nname = "intent"\nsettings = { lambdas = [1.0, 0.3, 0.0] }\n'
    swept = PLAN.replace('["ent-baln"]', '["ent-baln", "average"]')
    plan = reading(folder, swept + more)
    keys = [str(cell) for work in expand(plan) for cell in work.cells]
    assert len(set(keys)) == len(keys)
    assert [str(v) for v in requests(plan)["methods"]][3:] == [
        "intent-lambdas=3",
        "intent-lambdas=1+0.3+0",
    ]
    assert [str(v) for v in requests(plan)["sweep"]] == [
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
    assert [str(v) for v in requests(plan)["methods"]][3:] == ["fseg-lam=0.5", "fseg-lam=0"]
    for work in expand(plan):
        seen = [cell.request.variant(plan.step) for cell in work.cells]
        assert len({*seen}) == len(seen)


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
    ("old", "new", "where", "words"),
    [
        ('"tent"', '"tennt"', "methods[0].name", "no such method"),
        ('name = "tent", ', "", "methods[0]", "[methods] has no 'name'"),
        ("[1.0, 0.0]", "[1.0, 1.5]", "methods[0].lambdas[1]", "lambda is out of range"),
        ("views = 2", "view = 2", "methods[1].settings.view", "no setting 'view'"),
        ("views = 2", "views = -1", "methods[1].settings.views", "views"),
        ("default = true", "defaults = true", "methods[2].defaults", "no setting 'defaults'"),
        ("0.5,", "-1,", "methods[2].lambdas[0]", "lambda is out of range"),
        ("    0.0,", "    0.5,", "methods[2].lambdas[1]", "'lambdas' holds 0.5 twice"),
        ("    0.0,", '    "a",', "methods[2].lambdas[1]", "what is not a number"),
        ("]},\n]", "]},\n  3,\n]", "methods[3]", "not a list of tables"),
    ],
)
def test_a_mistake_in_a_list_of_tables_has_its_own_place(folder, old, new, where, words):
    assert INLINE.count(old) == 1
    reading(folder, INLINE)
    said, place = refused(folder, INLINE.replace(old, new))
    assert place == where
    assert words in said


HUGE = "9223372036854775807"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("repeats = 2", f"repeats = {HUGE}", f"repeats: 'repeats' is above 1000. Got: {HUGE}"),
        ("repeats = 2", "repeats = " + "9" * 5000, "a number that cannot be read"),
        ("repeats = 2", "repeats = " + "9" * 4000, "'repeats' is"),
        ("repeats = 2", "repeats = 1e8", "'repeats' is not a whole number"),
        ("repeats = 2", "repeats = 2\nseed = -1", "'seed' is below 0"),
        ("repeats = 2", f"repeats = 2\nseed = {HUGE}", "'seed' is above 4294967295"),
        ("repeats = 2", "repeats = 2\ntolerance = 1e300", "'tolerance' is above"),
        ("[2, 3, 6]", f"[2, {HUGE}]", "sweep.members[1]: A sweep needs 2 members or more"),
        ("[2, 3, 6]", f"{list(range(2, 2000))}", "'members' has 1998 entries, more than 1000"),
        ("views = 2", f"views = {HUGE}", "methods[1].settings.views: views is out of range"),
        ("views = 2", f"views = {'[' * 100}{']' * 100}", "methods[1].settings.views: views is out"),
        ("[1.0, 0.5, 0.0]", "[" * 9000 + "]" * 9000, "too many lists in each other"),
        ("steps = 2", f"steps = {HUGE}", "train.steps: steps is out of range"),
        ("size = [16, 16]", f"size = [{HUGE}, 1]", "size is out of range"),
        ("size = [16, 16]", "size = [65536, 65536]", "would be too large"),
        ("[members]", "[members]\nstep = 1e-9", "members.step: step is out of range"),
        ("repeats = 2", "#" + "x" * (1 << 20), "too long for a plan"),
    ],
)
def test_absurd_sizes_are_refused_at_once(tmp_path, old, new, words):
    make(tmp_path)
    assert PLAN.count(old) == 1
    with pytest.raises(PlanError) as caught:
        reading(tmp_path, PLAN.replace(old, new))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 500
