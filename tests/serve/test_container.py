"""The container file, without a container: checked by reading it, and its commands are run."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests import ROOT
from tests.docs.test_shell import free_port

TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
LINES = [
    (word, rest.strip())
    for word, rest in re.findall(
        r"^([A-Z]+) +(.+)$", re.sub(r"\\\n\s*", " ", TEXT), flags=re.MULTILINE
    )
]
START = max(n for n, (word, _) in enumerate(LINES) if word == "FROM")
BUILD, FINAL = LINES[:START], LINES[START:]
PORT = "8642"

# Lets a process and its children write below one folder only, as --read-only with --tmpfs does.
READ_ONLY = """
import errno, os, sys
ALLOWED = (os.environ["TMPDIR"], "/dev/", "/proc/self/")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
def watch(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)) and args[2] & WRITING:
        refuse(args[0])
    elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.truncate"):
        refuse(args[1] if event == "os.rename" else args[0])
def refuse(path):
    path = os.path.abspath(os.fsdecode(path)) if isinstance(path, (str, bytes)) else ""
    if path and not path.startswith(ALLOWED):
        raise OSError(errno.EROFS, "Read-only file system", path)
sys.addaudithook(watch)
"""


def values(word, lines=FINAL):
    return [rest for found, rest in lines if found == word]


def command(word):
    """The words of an instruction in its JSON form."""
    (rest,) = values(word)
    return json.loads(rest[rest.index("[") :])


def test_every_line_is_an_instruction_that_is_known():
    known = {"FROM", "ARG", "COPY", "WORKDIR", "RUN", "ENV", "USER", "EXPOSE"}
    assert {word for word, _ in LINES} <= known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert all(
        line.startswith(("#", " ", *known)) or line.split()[0].isupper()
        for line in TEXT.splitlines()
        if line
    )


def test_it_ends_as_a_user_without_rights_and_without_tools_to_build():
    (user,) = values("USER")
    assert all(int(part) >= 10_000 for part in user.split(":"))
    assert not values("RUN")
    assert values("COPY") == ["--from=build /opt/sitta /opt/sitta"]
    order = [word for word, _ in FINAL]
    assert order.index("USER") < order.index("ENTRYPOINT") < order.index("CMD")


def test_images_have_a_version_and_no_host():
    for image in values("FROM", LINES):
        name, _, tag = image.split()[0].partition(":")
        assert re.fullmatch(r"\d+\.\d+-slim", tag), image
        assert "/" not in name
        assert f"Python :: {tag.removesuffix('-slim')}" in (ROOT / "pyproject.toml").read_text()
    assert not re.search(r"https?://(?!127\.0\.0\.1)", TEXT)


def test_secrets_are_neither_built_in_nor_remote_files_added():
    assert not re.search(r"^(ADD|ENV .*(TOKEN|PASSWORD|SECRET)|ARG .*TOKEN)", TEXT, re.MULTILINE)
    assert "sudo" not in TEXT


def test_what_is_copied_and_installed_exists():
    wanted = [w for rest in values("COPY", BUILD) for w in rest.split()[:-1] if w[0] != "-"]
    assert all((ROOT / path).exists() for path in wanted)
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"]
    assert {path.split("/")[0] for path in wanted} <= set(let_in)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {project["readme"], *project["license-files"], "pyproject.toml", "constraints.txt"}
    assert needed <= set(wanted)
    (extras,) = re.findall(r'"/sitta\[(.+?)\]"', TEXT)
    assert {"serve"} <= set(extras.split(",")) <= set(project["optional-dependencies"])
    for line in values("RUN", BUILD):
        if "pip install" in line:
            assert "--no-cache-dir" in line
            assert "constraints.txt" in line, "only tested versions"


def shell(line, cwd):
    return subprocess.run(
        ["sh", "-euc", line],  # noqa: S607  (whatever shell there is)
        cwd=cwd,
        env={"PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])},
        capture_output=True,
        text=True,
        check=False,
    )


def test_torch_is_the_tested_one_from_the_index_that_is_given():
    (line,) = [line for line in values("RUN", BUILD) if "torch==" in line]
    shown = line.replace("pip install", "echo")
    (pin,) = re.findall(r"^torch==.+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert shell(f"TORCH_INDEX=; {shown}", ROOT).stdout.split() == ["--no-cache-dir", pin]
    told = shell(f"TORCH_INDEX=file:///cpu; {shown}", ROOT).stdout.split()
    assert told == ["--no-cache-dir", "--index-url", "file:///cpu", pin]


@pytest.mark.parametrize(("build", "code"), [("None", 0), ("'13.0'", 1)])
def test_a_cuda_build_of_torch_ends_the_build(build, code, tmp_path):
    (line,) = [line for line in values("RUN", BUILD) if "torch.version" in line]
    (tmp_path / "torch.py").write_text(f"class version:\n    cuda = {build}\n")
    done = shell(line, tmp_path)
    assert done.returncode == code
    assert ("set TORCH_INDEX" in done.stderr) == bool(code)


@pytest.fixture
def container(tmp_path):
    """The variables of a container whose only folder that can be written is /tmp."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(READ_ONLY)
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    told = dict(re.findall(r"(\w+)=(\S+)", " ".join(values("ENV"))))
    told = {k: v.replace("/tmp", str(scratch)) for k, v in told.items() if k != "PATH"}  # noqa: S108
    paths = [str(tmp_path / "site"), str(ROOT / "src")]
    told |= {"PYTHONPATH": os.pathsep.join(paths), "PATH": os.environ["PATH"]}
    return {**told, "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"}


def program(words):
    """The command with this Python in place of the container's."""
    return [sys.executable, *({"sitta": ["-m", "sitta"], "python": []}[words[0]]), *words[1:]]


def test_it_does_not_start_without_a_token(container):
    words = program([*command("ENTRYPOINT"), *command("CMD")])
    done = subprocess.run(words, env=container, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--token" in done.stderr


def test_it_serves_on_a_read_only_file_system_and_tells_whether_it_is_ready(container, tmp_path):
    port = str(free_port())
    words = [*command("ENTRYPOINT"), "phantom-alder", "--port", port]
    health = [word.replace(PORT, port) for word in command("HEALTHCHECK")]
    assert health != command("HEALTHCHECK")
    assert values("EXPOSE") == [PORT]
    told = {**container, "SITTA_TOKEN": "a-token-of-tests"}
    with open(tmp_path / "tmp" / "log", "w+") as log:
        process = subprocess.Popen(program(words), cwd=tmp_path / "tmp", env=told, stderr=log)
        try:
            for _ in range(240):
                done = subprocess.run(program(health), env=told, capture_output=True, check=False)
                if done.returncode == 0:
                    break
                assert process.poll() is None, Path(log.name).read_text()
                time.sleep(0.5)
            assert done.returncode == 0, done.stderr
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0, Path(log.name).read_text()
    assert subprocess.run(program(health), env=told, capture_output=True).returncode == 1


def test_the_read_only_file_system_of_these_tests_is_one(container, tmp_path):
    for code, whole in [
        (f"open({str(tmp_path / 'a')!r}, 'w')", False),
        (f"import os; os.mkdir({str(tmp_path / 'b')!r})", False),
        (f"open({str(tmp_path / 'tmp' / 'a')!r}, 'w')", True),
    ]:
        done = subprocess.run([sys.executable, "-c", code], env=container, capture_output=True)
        assert (done.returncode == 0) == whole, done.stderr


def test_the_page_on_serving_shows_how_to_run_it():
    shown = [line[2:].strip() for line in TEXT.splitlines() if line.startswith("#   docker")]
    page = (ROOT / "docs" / "how-to" / "serve.md").read_text()
    for line in shown:
        assert line in page
    run = shlex.split(shown[-1])
    assert {"--read-only", "--tmpfs", "--cap-drop"} <= set(run)
