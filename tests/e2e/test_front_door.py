"""What a person meets first: help, missing packages, misspelt words, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
import typer
from PIL import Image as Pillow

from sitta import errors
from sitta.cli import VERBS, app, show
from sitta.data import phantom
from tests.e2e.test_bench import apart
from tests.shell import FORKED, sitta_command

BLOCKED = """
import sys
sys.modules[{!r}], sys.argv = None, ["sitta", *{}]
from sitta.cli import main
main()
"""


def commands():
    """Every command and group by its words, as the whole program has them."""
    for verb in VERBS:
        __import__(f"sitta.cli.{verb}")

    def walk(command, words):
        yield words
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, [*words, name])

    return list(walk(typer.main.get_command(app), []))


@pytest.mark.parametrize("words", commands(), ids="-".join)
def test_help_shows_an_example_that_fits_and_plain_flags(words):
    done = sitta_command(*words, "--help", COLUMNS="80")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "<bool>" not in done.stdout
    assert "no-json" not in done.stdout
    example = re.search(r"Example: sitta ([a-z ]+)", done.stdout)
    assert example, done.stdout
    if words:
        assert example[1].split()[: len(words)] == words


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (["demo"], "torch"),
        (["predict", "phantom-alder", "image.png", "-o", "out"], "torch"),
        (["inspect", "phantom-alder"], "torch"),
        (["methods"], "torch"),
        (["serve"], "fastapi"),
        (["bench", "table", "results"], "pandas"),
        (["bench", "plan", "plan.toml"], "pandas"),
        (["bench", "run", "plan.toml", "-o", "out"], "scipy"),
        (["bench", "status", "results"], "scipy"),
    ],
)
def test_a_missing_package_ends_in_the_line_that_installs_it(words, package, tmp_path):
    Pillow.new("L", (8, 8)).save(tmp_path / "image.png")
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(package, words)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    extra = f"'.[{words[0]}]'" if words[0] in ("serve", "bench") else "."
    assert f"What to do: pip install -e {extra}" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_worker_of_the_service_without_torch_says_so_too(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('torch', name='torch')")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "sitta", "serve", "phantom-alder", "--port", "0"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert done.stderr.strip().endswith("not installed: torch. What to do: pip install -e .")
    assert len(done.stderr.strip().splitlines()) == 1


def test_only_the_benchmark_needs_pandas_and_scipy(tmp_path):
    phantom.write(tmp_path, "rowan", 5, (32, 32))
    small = ["--size", "32x32", "--json"]
    train = ["train", "--data", ".", "--task", "phantom", "--source", "rowan", "--out", "run"]
    for words in (
        ["predict", "phantom-alder", "phantom/rowan/images", "-o", "out", *small],
        [*train, "--steps", "2", "--batch", "2", *small],
        ["bench", "table", "--help"],
    ):
        program = BLOCKED.replace("sys.argv =", "sys.modules['scipy'], sys.argv = None,")
        done = subprocess.run(
            [sys.executable, "-c", program.format("pandas", words)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out" / "masks").iterdir())) == 5


def test_the_line_that_installs_an_extra_depends_on_the_place(monkeypatch, tmp_path):
    assert errors.pip_line("ray") == "pip install -e '.[ray]'"
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "site-packages" / "sitta" / "errors.py"))
    assert errors.pip_line("ray") == "pip install 'sitta-seg[ray]'"
    assert errors.pip_line() == "pip install sitta-seg"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["inspect", "json:loads"], "json:loads cannot be called without arguments"),
        (["inspect", "json:loads"], 'factory = "json:loads" and arguments = { s = ... } under'),
        (["profile", "new", "torch.nn:Conv2d"], "{ in_channels = ..., out_channels = ..., kernel"),
        (["inspect", "string:digits"], "string:digits is no function"),
        (["inspect", "chest-mcuu"], "Did you mean 'chest-mcu'?"),
        (["zoo", "chest-mcuu"], "Did you mean 'chest-mcu'?"),
        (["methods", "intnt"], "Did you mean 'intent'?"),
        (["predict", "phantom-alder", ".", "-o", "out", "--method", "tnet"], "Did you mean 'tent'"),
        (["predict", "phantom-alder", ".", "-o", "out", "--set", "budgte=full"], "mean 'budget'?"),
        (["predict", "phantom-alder", "a.png", "-o", "out", "--device", "cuda"], "has no GPU"),
    ],
)
def test_a_mistake_ends_in_one_sentence(words, said, tmp_path):
    import torch

    if "cuda" in words and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    Pillow.new("L", (8, 8)).save(tmp_path / "a.png")
    done = sitta_command(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_misspelt_commands_and_options_are_answered(tmp_path):
    assert "Did you mean 'predict'?" in sitta_command("predcit", cwd=tmp_path).stderr
    said = sitta_command("demo", "--imges", "2", cwd=tmp_path).stderr
    assert "--images" in said


def test_links_to_images_are_predicted_under_their_own_names(tmp_path):
    phantom.write(tmp_path, "rowan", 1, (32, 32))
    (tmp_path / "in").mkdir()
    target = tmp_path / "phantom" / "rowan" / "images" / "scene-0000.png"
    (tmp_path / "in" / "patient.png").symlink_to(target)
    words = ("predict", "phantom-alder", "in", "--size", "32x32", "-o", "out", "--json")
    done = sitta_command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "masks" / "patient.png").exists()


def test_text_in_brackets_and_colons_is_printed_as_it_is(capsys):
    rows = [("[members-disagree] :smile:", "[red]x[/red]", 3)]
    show.print_table(["note", "code", "number"], rows, title="[a]")
    show.console().print("[bold]plain[/bold]")
    said = capsys.readouterr().out
    for text in ("[members-disagree] :smile:", "[red]x[/red]", "[a]", "[bold]plain[/bold]"):
        assert text in said


def test_the_advice_for_a_file_without_a_pixel_size_works(tmp_path):
    phantom.write(tmp_path, "rowan", 1, (64, 64))
    image = tmp_path / "phantom" / "rowan" / "images" / "scene-0000.png"
    words = ("predict", "spinal-ucl", image, "-o", "out", "--step", "1")
    refused = sitta_command(*words, cwd=tmp_path)
    assert refused.returncode == 1
    advice = re.search(r"(--pixel-size) ([0-9.x]+)", " ".join(refused.stdout.split()))
    followed = sitta_command(*words, advice[1], advice[2], cwd=tmp_path)
    assert followed.returncode == 0, followed.stdout
    wrong = sitta_command(*words, "--pixel-size", "0x1", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "pixel_size is out of range" in wrong.stderr


def interrupted(words, folder, ready):
    """Exit code and last line of a command that gets Ctrl-C once ``ready`` says so."""
    err = folder / "err.txt"
    process = FORKED.Process(target=apart, args=([*map(str, words)], folder, str(err)))
    process.start()
    while not ready():
        assert process.is_alive(), err.read_text()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    process.join()
    said = err.read_text()
    assert "Traceback" not in said
    return process.exitcode, said.strip().splitlines()[-1]


def test_ctrl_c_during_predict_says_how_far_it_got(images, tmp_path):
    words = ["predict", "phantom-alder", images, "-o", tmp_path / "out", "--size", "48x48"]
    records = (tmp_path / "out" / ".sitta").glob
    code, said = interrupted(words, tmp_path, lambda: len(list(records("[!.]*.json"))) >= 2)
    assert code == 130
    told = re.fullmatch(r"(\d+) of 24 done; the same command resumes\.", said)
    assert told, said
    assert 1 <= int(told[1]) < 24
    assert sitta_command(*words, "--json").returncode == 0


def test_ctrl_c_before_anything_is_done_says_so(capsys):
    with pytest.raises(typer.Exit), show.progress("predict", silent=True):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "Nothing is done yet.\n"


def test_ctrl_c_during_train_says_how_to_go_on(tmp_path):
    phantom.write(tmp_path, "alder", 8, (32, 32))
    where = ["train", "--data", tmp_path, "--task", "phantom", "--source", "alder"]
    words = [*where, "--out", tmp_path / "out", "--size", "32x32", "--epochs", "500"]
    log = tmp_path / "out" / "log.csv"
    code, said = interrupted([*words, "--save-every", "0"], tmp_path, log.exists)
    assert code == 130
    assert re.fullmatch(r"\d+ of 500 epochs done; .* --resume .*", said), said


def test_the_shell_completes_commands_and_models():
    told = {"_SITTA_COMPLETE": "complete_bash", "COMP_WORDS": "sitta inspect chest-m"}
    done = subprocess.run(
        [sys.executable, "-m", "sitta"],
        env={**os.environ, **told, "COMP_CWORD": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["chest-mcu"], done.stderr
    assert "--install-completion" in sitta_command("--help").stdout
