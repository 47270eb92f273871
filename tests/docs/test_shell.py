"""Every shell block of the documentation works, in the order in which it is written.

The blocks of a page run in one scratch folder, which has the plans of a clone. Commands that set
up a machine are checked by reading them. A server is started, asked once, and stopped.
"""

import doctest
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from contextlib import ExitStack, contextmanager

import pytest

from sitta.data import phantom
from tests.data import distributions
from tests.docs.blocks import PAGES, ROOT, SHELL, blocks, is_static
from tests.docs.warm import command

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
END = "--- end of a command ---"
SERVERS = ("sitta serve", "sitta review")
PORT = "8642"  # of the documentation; servers of tests take one that is free


def relative(page):
    return str(page.relative_to(ROOT))


def shell(page):
    return [block for block in blocks(page) if block.language in SHELL]


def is_program(block):
    """Python that is no doctest: pytest leaves it out."""
    return block.language == "python" and ">>>" not in block.text


def runnable(page):
    """All blocks that run in the folder of a page, in order."""
    return [b for b in blocks(page) if b.language in SHELL or is_program(b)]


RUN = [page for page in PAGES if any(b.marker != "not run" for b in runnable(page))]
SLOW = [page for page in PAGES if any(b.marker == "slow" for b in shell(page))]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    with command(tmp_path_factory.mktemp("bin")) as folder:
        yield os.pathsep.join([str(folder), os.path.dirname(sys.executable), os.environ["PATH"]])


class Folder:
    """A scratch folder in which the blocks of one page run one after the other."""

    def __init__(self, place, path):
        shutil.copytree(ROOT / "benchmarks", place / "benchmarks", ignore=not_plans)
        self.place, self.port = place, free_port()
        kept = {
            name: os.environ[name] for name in ("LANG", "OMP_NUM_THREADS") if name in os.environ
        }
        self.variables = {**kept, "PATH": path, "HOME": str(place), "COLUMNS": "80"}
        self.servers = ExitStack()

    def run(self, block):
        """Run the commands of a block in one shell, and compare what they print."""
        commands = [pair for pair in block.commands if not is_static(pair[0])]
        servers = [line for line, _ in commands if line.startswith(SERVERS)]
        plain = [pair for pair in commands if pair[0] not in servers]
        if plain:
            printed = self.script([line for line, _ in plain])
            for (line, shown), got in zip(plain, printed, strict=True):
                compare(line, shown, got)
        for line in servers:
            exports = [f"{line}\n" for line, _ in plain if line.startswith("export ")]
            self.servers.close()
            self.servers.enter_context(self.server("".join(exports), line))

    def program(self, block):
        """Run a block of Python as a program."""
        text = block.text.replace(PORT, str(self.port))
        done = subprocess.run(
            [sys.executable, "-c", text],
            cwd=self.place,
            env={**self.variables, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"

    def script(self, lines):
        """Output of each line of a script that stops at the first error."""
        text = "".join(f"{line}\necho '{END}'\n" for line in lines).replace(PORT, str(self.port))
        done = subprocess.run(
            ["sh", "-euc", text],  # noqa: S607  (whatever shell there is)
            cwd=self.place,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.returncode == 0, f"{text}\nexit code {done.returncode}:\n{done.stdout}"
        return done.stdout.split(f"{END}\n")[:-1]

    @contextmanager
    def server(self, exports, line):
        """A service that answers, until the next one or the end of the page."""
        text = f"{exports}exec {line} --port {self.port}"
        with open(self.place / "server.log", "w+") as log:
            process = subprocess.Popen(
                ["sh", "-euc", text],  # noqa: S607
                cwd=self.place,
                env=self.variables,
                stdout=log,
                stderr=log,
            )
            try:
                page = "" if line.startswith("sitta review") else "healthz"
                wait_until_there(process, f"{self.port}/{page}", self.place / "server.log")
                yield
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(timeout=60) == 0, (self.place / "server.log").read_text()


def unpacked(place):
    """What the owners of the public data sets give, in the folders that the page names."""
    for name, fill in {
        "MontgomerySet": distributions.montgomery,
        "shenzhen": distributions.shenzhen,
        "jsrt": distributions.jsrt,
        "CHASEDB1": distributions.chase,
        "HRF": distributions.hrf,
        "AV_groundTruth": distributions.rite,
        "scgm": distributions.scgm,
    }.items():
        fill(place / name)


def saved(place):
    """The network and the profile that the page shows, where it says they are saved."""
    page = ROOT / "docs" / "how-to" / "adapt-your-model.md"
    texts = {
        block.language: block.text for block in reversed(blocks(page)) if ">>>" not in block.text
    }
    (place / "net.py").write_text(texts["python"])
    (place / "model.toml").write_text(texts["toml"])


def scanned(place):
    """A volume to send to the service."""
    phantom.write(place, "birch", 1, (16, 16, 8))
    (place / "phantom/birch/images/scene-0000.nii.gz").rename(place / "scan.nii.gz")


def published(place):
    """The results that come with a clone."""
    (place / "docs").mkdir()
    (place / "docs" / "results").symlink_to(ROOT / "docs" / "results")


PREPARED = {
    "docs/how-to/serve.md": scanned,
    "docs/how-to/benchmark.md": published,
    "docs/how-to/prepare-data.md": unpacked,
    "docs/how-to/adapt-your-model.md": saved,
}


def not_plans(folder, names):
    return [name for name in names if not name.endswith(".toml")]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_until_there(process, page, log):
    for _ in range(240):
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}", timeout=5) as answer:
                assert answer.status == 200
                return
        except OSError:
            time.sleep(0.25)
    pytest.fail(f"the service did not answer:\n{log.read_text()}")


def compare(line, shown, got):
    """Output that is shown is what comes out, but for white space, `...` and empty lines."""
    if shown.strip():
        shown, got = (re.sub(r"\n\s*\n", "\n", text.strip()) + "\n" for text in (shown, got))
        checker = doctest.OutputChecker()
        assert checker.check_output(shown, got, FLAGS), f"$ {line}\nshown:\n{shown}\ngot:\n{got}"


def run_page(page, place, path, slow):
    if any("curl " in block.text for block in shell(page)) and not shutil.which("curl"):
        pytest.skip("no curl here")
    folder = Folder(place, path)
    PREPARED.get(relative(page), lambda place: None)(place)
    with folder.servers:
        for block in runnable(page):
            if block.marker == "" or (slow and block.marker == "slow"):
                try:
                    (folder.program if is_program(block) else folder.run)(block)
                except AssertionError as failed:
                    raise AssertionError(f"{relative(page)}:{block.line}: {failed}") from None


@pytest.mark.parametrize("page", RUN, ids=relative)
def test_shell_blocks_work(page, tmp_path, path):
    run_page(page, tmp_path, path, slow=False)


@pytest.mark.slow_docs
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", SLOW, ids=relative)
def test_slow_shell_blocks_work(page, tmp_path, path, request):
    if "slow_docs" not in request.config.option.markexpr and "SITTA_SLOW_DOCS" not in os.environ:
        pytest.skip("takes minutes: run with -m slow_docs or SITTA_SLOW_DOCS=1")
    run_page(page, tmp_path, path, slow=True)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_no_shell_command_hides_from_these_tests(page):
    found = blocks(page)
    unnamed = [block.line for block in found if not block.language]
    assert not unnamed, f"{relative(page)}: blocks without a language on lines {unnamed}"
    hidden = [
        b.line
        for b in found
        if b.language not in SHELL and re.search(r"^\$? ?sitta ", b.text, re.M)
    ]
    assert not hidden, f"{relative(page)}: commands in blocks of another language: {hidden}"
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"^    (\$ )?(sitta|make|pip) ", text, re.MULTILINE), relative(page)
    assert not re.search(r"^<!-- (not run|slow)\b(?!: \S.* -->\n```)", text, re.M), relative(page)


UNRUN = [
    (page, line)
    for page in PAGES
    for block in shell(page)
    for line, _ in block.commands
    if is_static(line)
]


@pytest.mark.parametrize(("page", "line"), UNRUN, ids=lambda value: str(value)[-40:])
def test_commands_that_are_not_run_name_what_exists(page, line):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for words in map(shlex.split, re.split(r"&&|;|\|", line)):
        program = os.path.basename(words[0])
        if program == "make":
            assert {word for word in words[1:] if "=" not in word} <= targets, line
        elif program == "pip":
            check_pip(words[1:], project, line)
        elif program == "pytest":
            files = [word.split("::")[0] for word in words[1:] if word.startswith("tests/")]
            assert all((ROOT / file).exists() for file in files), line


def check_pip(words, project, line):
    """Extras exist, a clone is installed editable, and constraints are a file of the clone."""
    for word in words:
        if extras := re.fullmatch(r"(?:\.|sitta-seg)\[(.+)\]", word):
            assert set(extras[1].split(",")) <= set(project["optional-dependencies"]), line
        assert not re.match(r"sitta(\[|=|$)", word), f"{line}: that is another project"
        if word.startswith(".") and "--no-deps" not in words:
            assert "-e" in words, f"{line}: a clone is installed with -e"
    if "-c" in words:
        assert (ROOT / words[words.index("-c") + 1]).is_file(), line
