"""A run gives the same rows however it is cut, shared out, disturbed or repeated."""

import signal
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import sitta
from sitta._util.process import start
from sitta.bench.plan.cells import Cell, expand, select
from sitta.bench.plan.images import images
from sitta.bench.plan.load import read_plan
from sitta.bench.plan.request import MethodRequest
from sitta.bench.run import jobs, scheduler
from sitta.bench.run.evaluate import evaluate, trust
from sitta.bench.run.measure import measure
from sitta.bench.run.results import Results, unfinished
from sitta.bench.run.scheduler import attempt, pending, run, undone, work_loop
from sitta.bench.stats import rows
from sitta.bench.variant import ORACLE
from tests.bench import tiny
from tests.shell import FORKED

# A node that is gone is missed after a second, not after fifteen; one that is slow has its time.
SOON = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 250}
HEAD = {"num_cpus": 1, "include_dashboard": False, "_system_config": SOON}


def same(one, other):
    """All rows and all columns, but how long it took."""
    mine, theirs = (rows.load(r.folder).drop(columns="seconds") for r in (one, other))
    pd.testing.assert_frame_equal(mine, theirs, check_exact=True)


def test_every_cell_has_a_row_for_every_image(results, plan):
    assert results.failures() == {}
    assert results.status().eval("done == of").all()
    for work in expand(plan):
        for cell in work.cells:
            table = rows.read(results.cell(cell))
            assert not table.duplicated(["image", "slice"]).any()
            home = cell.target == work.model.source
            assert len(table) == (1 if home else 2 if work.drawn else 5)
            assert table["drawn"].sum() == (2 if not home else table["drawn"].sum())
    found = rows.load(results.folder)
    assert found[list(rows.METRICS)].notna().all(axis=None)
    assert found["dice"].between(0, 1).all()


def test_figures_are_those_of_the_python_api(results, plan):
    """From the checkpoint alone, one image at a time: all figures, to 1e-6."""
    for work in (w for w in expand(plan) if w.kind != "train"):
        samples, _ = images(plan, work)
        for cell in (c for c in work.cells if c.request.method != "oracle"):
            table = rows.read(results.cell(cell)).set_index(["image", "slice"])
            method = cell.request.build(sitta.load(results.checkpoint(cell.model)))
            for at in range(len(samples)):
                p = method(samples.images[at : at + 1])
                expected = measure(p, samples.masks[at : at + 1])[0] | trust(p)[0]
                stored = table.loc[(samples.names[at], samples.slices[at])]
                assert stored["notes"] == expected.pop("notes")
                for name, value in expected.items():
                    near = pytest.approx(value, rel=1e-6, abs=1e-6, nan_ok=True)
                    assert stored[name] == near, (str(cell), name)


def test_the_oracle_is_the_best_lambda_of_each_image(results):
    found = rows.load(results.folder).query("target != source and training == 'plain'")
    key = ["source", "target", "repeat", "image"]
    best = found[found["method"] == "oracle"].set_index(key)["dice"]
    fixed = found[(found["method"] == "source") & found["lam"].isin([1.0, 0.0])]
    assert len(best) == 10
    assert (best >= fixed.groupby(key)["dice"].max().loc[best.index]).all()


def test_each_variance_has_a_pass_of_its_own(results, place):
    """Of unlike methods each is what it is alone, and the oracle picks from plain members."""
    path = place / "unlike.toml"
    more = '[[methods]]\nname = "source"\nlambdas = [0.3]\n\n[[methods]]\nname = "intent"\n'
    path.write_text(f'{tiny.ONCE}\n{more}settings = {{ variance = "unbiased" }}\n')
    plan = read_plan(path)
    work = next(w for w in expand(plan) if w.kind == "methods")
    oracle = Cell(work.model, work.target, MethodRequest(ORACLE))
    fixed, unbiased = work.cells[-2:]
    checkpoint, found = str(results.checkpoint(work.model)), {}
    asked = [unbiased, fixed, oracle]
    evaluate(plan, work, checkpoint, asked, lambda cell, table: found.update({str(cell): table}))
    samples, _ = images(plan, work)
    for cell in (fixed, unbiased):
        p = cell.request.build(sitta.load(checkpoint))(samples.images)
        expected = [row["ece"] for row in measure(p, samples.masks)]
        assert found[str(cell)]["ece"].tolist() == pytest.approx(expected, rel=1e-6)
    whole = rows.read(results.cell(oracle)).query("drawn").sort_values("image")
    drawn = found[str(oracle)].sort_values("image")
    assert drawn["ece"].tolist() == pytest.approx(whole["ece"].tolist(), rel=1e-6)


def test_nothing_is_done_twice(results, plan):
    before = {p: p.stat().st_mtime_ns for p in results.folder.glob("[cm][eo]*/**/*.*")}
    again = run(plan, results.folder)
    assert len(before) > 40
    assert before == {p: p.stat().st_mtime_ns for p in again.folder.glob("[cm][eo]*/**/*.*")}


@pytest.mark.parametrize("threads", [1, 2])
def test_jobs_compute_with_as_many_threads_as_given(plan, tmp_path, monkeypatch, threads):
    before, seen = torch.get_num_threads(), []
    monkeypatch.setattr(scheduler, "attempt", lambda *_: seen.append(torch.get_num_threads()))
    monkeypatch.setattr(scheduler, "pending", lambda *_: [] if seen else select(plan, (), ()))
    monkeypatch.setattr(scheduler.time, "sleep", lambda _: None)
    run(plan, tmp_path, threads=threads)
    assert set(seen) == {threads}
    assert torch.get_num_threads() == before


def test_models_are_done_one_by_one(plan, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(jobs, "perform", lambda *args: seen.append(args[-1]))
    works = expand(plan)
    done = Results(tmp_path / "order")
    monkeypatch.setattr(Results, "done", lambda self, work: work in seen)
    monkeypatch.setattr(Results, "ready", lambda self, work: True)
    done.open(plan, works)
    work_loop(plan, done, works)
    assert seen == works


def test_repeats_apart_come_to_the_whole(place, tmp_path):
    """As on two machines without a common disk."""
    path = place / "twice.toml"
    path.write_text(tiny.PLAN)
    plan = read_plan(path)
    whole = run(plan, tmp_path / "whole")
    folders = [tmp_path / "r0", tmp_path / "r1"]
    for repeat, folder in enumerate(folders):
        part = run(plan, folder, repeats=[repeat])
        assert rows.load(folder)["repeat"].unique().tolist() == [repeat]
        assert part.status()["repeat"].unique().tolist() == [repeat]
        assert unfinished(folder) == ""  # of this run nothing is missing
    parts = [rows.load(folder) for folder in folders]
    both = pd.concat(parts, ignore_index=True).drop(columns="seconds")
    keys = [*rows.CELL, *rows.VARIANT, "image", "slice"]
    expected = rows.load(whole.folder).drop(columns="seconds")
    pd.testing.assert_frame_equal(
        both.sort_values(keys, ignore_index=True), expected.sort_values(keys, ignore_index=True)
    )
    Results(folders[0]).open(plan, select(plan))  # as a run of all of it begins
    told = "The run is not finished: phantom members 36 of 60, phantom methods 9 of 15 cells are"
    assert unfinished(folders[0]) == f"{told} there."


def test_a_cell_that_is_lost_is_filled_alone(results, plan, tmp_path):
    import shutil

    copy = Results(tmp_path / "copy")
    shutil.copytree(results.folder, copy.folder)
    lost = next(w for w in expand(plan) if w.kind == "members").cells[-1]
    left = copy.cell(lost).with_name(f".draft-1-0123abcd.{copy.cell(lost).name}")
    copy.cell(lost).rename(left)  # as a worker leaves it that is lost while it writes
    run(plan, copy.folder)
    assert left.exists()  # its writer may still be there: not yet swept, and not read
    same(copy, results)


def job(plan, folder, workers=1):
    """In a process of its own."""
    run(plan, folder, workers=workers)


def test_killed_at_twenty_random_moments_it_comes_to_the_same(results, plan, tmp_path):
    chance, folder, kills = np.random.default_rng(7), tmp_path / "cut", 0
    while kills < 20:
        process = FORKED.Process(target=job, args=(plan, folder))
        process.start()
        process.join(chance.uniform(0.05, 0.9))
        if process.is_alive():
            process.kill()
            kills += 1
        else:  # all was done: lose some of it, and go on killing
            for path in chance.choice(sorted(folder.glob("cells/*/*/*.csv")), 8, replace=False):
                path.unlink()
        process.join()
    cut = run(plan, folder)
    assert cut.failures() == {}
    same(cut, results)


def test_a_run_that_is_killed_takes_its_workers_along(plan, tmp_path):
    works, results = expand(plan), Results(tmp_path / "crew")
    process = FORKED.Process(target=job, args=(plan, results.folder, 2))
    process.start()
    while not any(results.folder.glob("locks/*")):
        time.sleep(0.02)
    process.kill()
    process.join()
    while results.status()["running"].any():  # without an end they would do all of it
        time.sleep(0.02)
    assert len(pending(results, undone(results, works))) > len(works) / 2


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells by /proc")
def test_ctrl_c_does_not_reach_a_worker_even_while_it_starts(plan, tmp_path):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    worker = start(scheduler.worker_main, plan, Results(tmp_path), [])
    try:
        told = Path(f"/proc/{worker.pid}/status").read_text()
        deaf = [line.split()[1] for line in told.splitlines() if line[:7] in ("SigBlk:", "SigIgn:")]
        assert any(int(mask, 16) >> signal.SIGINT - 1 & 1 for mask in deaf)
    finally:
        worker.kill()
        worker.join()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_two_runs_on_one_folder_do_not_collide(results, plan, tmp_path):
    folder = tmp_path / "both"
    pair = [FORKED.Process(target=job, args=(plan, folder)) for _ in range(2)]
    for process in pair:
        process.start()
    for process in pair:
        process.join()
    assert [process.exitcode for process in pair] == [0, 0]
    same(Results(folder), results)


def test_work_that_somebody_is_at_is_left_to_him(plan, tmp_path):
    results = Results(tmp_path / "held")
    works = expand(plan)
    results.open(plan, works)
    with results.claim(works[0]) as mine:
        assert mine
        assert not attempt(plan, results, works[0])
        assert results.status().query("kind == 'train'")["running"].sum() == 1
    assert results.status()["running"].sum() == 0


def test_a_failure_is_told_and_the_rest_goes_on(results, plan, tmp_path, monkeypatch):
    folder = tmp_path / "failing"
    real = jobs.train

    def train(job, *args, **settings):
        if job.domain.name == "birch":
            raise sitta.InvalidImage("The film is wet.")
        return real(job, *args, **settings)

    monkeypatch.setattr(jobs, "train", train)
    told = []
    found = run(plan, folder, watch=lambda *counts: told.append(counts))
    assert list(found.failures()) == ["phantom-birch-r0--train"]
    assert "The film is wet." in found.failures()["phantom-birch-r0--train"]
    left = [w for w in expand(plan) if not found.done(w)]
    assert {str(w.model) for w in left} == {"phantom-birch-r0"}
    assert pending(found, undone(found, expand(plan))) == []
    done = [done for done, _ in told]
    assert done == sorted(done)  # a failure is never counted as done, not even for a moment
    assert told[-1] == (len(expand(plan)) - len(left), len(expand(plan)))
    monkeypatch.undo()
    same(run(plan, folder), results)  # what failed is tried again


def test_work_asks_for_its_own_failure_alone(plan, tmp_path, monkeypatch):
    results, (first, second) = Results(tmp_path / "own"), expand(plan)[:2]
    seen = []
    monkeypatch.setattr(jobs, "perform", lambda *args: seen.append(args[-1]))
    monkeypatch.setattr(Results, "failures", lambda self: pytest.fail("all were asked for"))
    results.fail(first, "wet")
    assert not attempt(plan, results, first)
    assert attempt(plan, results, second)
    assert seen == [second]


def test_what_is_done_is_not_looked_at_again(plan, tmp_path, monkeypatch):
    works, looks, seen, told = expand(plan), Counter(), [], []
    results = Results(tmp_path / "looks")

    def done(self, work):
        looks[str(work)] += work in seen
        return work in seen

    monkeypatch.setattr(jobs, "perform", lambda *args: seen.append(args[-1]))
    monkeypatch.setattr(Results, "done", done)
    monkeypatch.setattr(Results, "ready", lambda self, work: True)
    work_loop(plan, results, works, watch=lambda *counts: told.append(counts))
    assert {*looks.values()} == {1}
    assert told == [(done, len(works)) for done in range(len(works) + 1)]


def test_threads_are_as_before(results, plan):
    torch.set_num_threads(2)
    try:
        work_loop(plan, results, expand(plan))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_a_cluster_that_loses_a_node_comes_to_the_same(results, plan, tmp_path):
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    folder = tmp_path / "spread"
    cluster = Cluster(initialize_head=True, head_node_args=HEAD)
    lost = cluster.add_node(num_cpus=1)
    killed = []

    def alive():
        return sum(node["Alive"] for node in ray.nodes())

    def kill():
        while len(list(folder.glob("cells/*/*/*.csv"))) < 3:
            time.sleep(0.02)
        cluster.remove_node(lost, allow_graceful=False)
        while alive() > 1:  # until the head notices
            time.sleep(0.1)
        killed.append(True)

    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        assert alive() == 2
        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        found = run(plan, folder, cluster=cluster.address)
        thread.join(60)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert killed
    assert found.failures() == {}
    same(found, results)
