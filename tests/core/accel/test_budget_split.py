"""Members and images in parts that fit into made-up budgets give the same numbers."""

from types import SimpleNamespace

import psutil
import pytest
import torch

import sitta
from sitta.adaptation.shared_pass import run_shared
from sitta.core import twin as twin_module
from sitta.core.accel import budget
from sitta.core.accel.budget import free_memory, split
from tests.core.test_twin import Branching
from tests.nets import case

GB = 1 << 30


@pytest.mark.parametrize(
    ("members", "images", "row", "free", "expected"),
    [
        (6, 1, 11 << 20, 2 * GB, (6, 1)),  # 128x128 on any machine: all at once
        (6, 1, GB, 2 * GB, (2, 1)),
        (6, 1, 3 * GB, 2 * GB, (1, 1)),  # too large for anything less
        (6, 1, GB, 4 * GB, (3, 1)),  # 3 and 3, not 4 and 2
        (6, 10, GB, 2 * GB, (1, 2)),
        (6, 10, GB, 10 * GB, (1, 10)),
        (6, 10, GB, 0, (1, 1)),
        (11, 3, GB, 9 * GB, (3, 3)),
    ],
)
def test_parts_fit_and_are_even(members, images, row, free, expected):
    assert split(members, images, row, free) == expected


def system(root, groups="", **files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    return root


def test_available_memory_is_the_least_of_machine_and_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * GB))
    assert free_memory(system(tmp_path / "plain")) == 8 * GB
    two = {"job/memory.max": 4 * GB, "job/memory.current": GB, "memory.max": "max"}
    stat = {"job/memory.stat": f"anon 5\ninactive_file {GB // 2}\n"}
    assert free_memory(system(tmp_path / "v2", groups="0::/job\n", **two, **stat)) == 3.5 * GB
    above = {"a/memory.max": 2 * GB, "a/memory.current": GB, "a/b/memory.max": "max"}
    assert free_memory(system(tmp_path / "parent", groups="0::/a/b\n", **above)) == GB
    one = {"memory/memory.limit_in_bytes": 3 * GB, "memory/memory.usage_in_bytes": GB}
    lines = "5:cpu:/\n4:memory:/far/away\n0::/\n"  # a container: its group is what it sees on top
    assert free_memory(system(tmp_path / "v1", groups=lines, **one)) == 2 * GB
    full = {"memory.max": GB, "memory.current": 2 * GB}
    assert free_memory(system(tmp_path / "full", groups="0::/\n", **full)) == 0


@pytest.fixture
def passes(monkeypatch):
    """Rows of every pass, on a machine in which little fits and nothing is small."""
    monkeypatch.setattr(budget, "GENEROUS", 1 << 40)
    seen = []
    run = twin_module.Twin.run

    def counted(self, rows, lambdas, **more):
        seen.append((len(lambdas), len(rows) // (1 if more.get("same_rows") else len(lambdas))))
        return run(self, rows, lambdas, **more)

    monkeypatch.setattr(twin_module.Twin, "run", counted)
    return seen


@pytest.mark.parametrize("settings", [{}, {"statistics": "in-layer"}, {"variance": "unbiased"}])
def test_little_memory_leads_to_parts_and_the_same_numbers(passes, monkeypatch, settings):
    torch.manual_seed(0)
    net, images = case(images=5)
    whole = sitta.InTEnt(net, members_at_once=99, **settings)(images)
    rows = 7 if settings.get("variance") == "unbiased" else 6
    assert passes == [(rows, 5)]
    adapt = sitta.InTEnt(net, **settings)
    for known, free, expected in ((None, 1, (1, 1)), (100, 250, (1, 2)), (100, 1300, (2, 5))):
        passes.clear()
        monkeypatch.setattr(budget, "available_bytes", lambda _, free=free: free)
        if known:
            monkeypatch.setattr(budget, "row_bytes", lambda *_: 100)
        found = adapt(images)
        for name in ("probability", "members", "weights", "entropies", "distance"):
            ours, theirs = getattr(found, name), getattr(whole, name)
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
        assert torch.equal(found.mask, whole.mask)
        assert max(passes, key=lambda p: p[0] * p[1]) == expected


def test_source_and_shared_members_go_in_parts_too(passes, monkeypatch):
    net, images = case(images=5)
    source, adapt = sitta.Source(net, lam=0.4), sitta.InTEnt(net)
    alone = [source(x) for x in images]
    monkeypatch.setattr(budget, "row_bytes", lambda *_: 100)
    monkeypatch.setattr(budget, "available_bytes", lambda _: 400)
    passes.clear()
    for found in (source(images), run_shared([source, adapt], images)[0]):
        for n, expected in enumerate(alone):
            torch.testing.assert_close(found[n].probability, expected.probability)
            torch.testing.assert_close(found[n].distance, expected.distance)
    assert max(k * n for k, n in passes) <= 4


def test_a_row_is_measured_once_a_shape_and_not_for_small_images(monkeypatch):
    net, _ = case()
    adapt = sitta.InTEnt(net)
    adapt(torch.rand(1, 16, 16))
    with adapt._twins.borrow() as twin:
        assert budget.row_bytes(twin.module, torch.rand(1, 16, 16)) is None
        monkeypatch.setattr(budget, "CPU_BYTES", 1)
        image = torch.rand(1, 32, 32)
    adapt(image)
    with adapt._twins.borrow() as twin:
        row = budget.row_bytes(twin.module, image)
    assert row > 2 * 4 * 32 * 32  # more than its input and its output


def test_a_model_whose_path_depends_on_values_still_goes_whole(monkeypatch):
    net, image = Branching().eval(), torch.rand(1, 6, 6)
    expected = sitta.InTEnt(net)(image)
    monkeypatch.setattr(budget, "GENEROUS", 1 << 40)
    assert torch.equal(sitta.InTEnt(net)(image).probability, expected.probability)
