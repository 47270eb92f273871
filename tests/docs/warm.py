"""`sitta` for shell blocks, without the seconds that each start of Python and torch takes.

A server process imports everything once and forks a child for each command. The `sitta` on PATH is
a small client: it hands its words, folder, environment and streams to the server, passes signals
on, and exits with the code of the child.
"""

import array
import atexit
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

CLIENT = """\
#!{python} -IS
import json, os, signal, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = [sys.argv[1:], os.getcwd(), dict(os.environ)]
socket.send_fds(server, [json.dumps(request).encode() + b"\\n"], [0, 1, 2])
answers = server.makefile()
child = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(child, number))
sys.exit(int(answers.readline() or 70))
"""
LATE = ("matplotlib.figure", "monai.metrics", "scipy.stats")  # imported inside functions of ours


@contextmanager
def command(folder):
    """A folder with an executable `sitta`, as long as the block lasts."""
    folder = Path(folder)
    address = str(folder / "socket")
    client = folder / "sitta"
    client.write_text(CLIENT.format(python=sys.executable, address=address))
    client.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        words = [sys.executable, "-m", "tests.docs.warm", str(listening.fileno())]
        root = Path(__file__).parents[2]
        server = subprocess.Popen(words, pass_fds=[listening.fileno()], cwd=root)
    try:
        yield folder
    finally:
        server.terminate()
        server.wait()


def serve(listening):
    """Fork a child for each connection, until this process is ended."""
    import torch

    import sitta

    torch.set_num_threads(1)  # tests run side by side
    ours = (module.name for module in pkgutil.walk_packages(sitta.__path__, "sitta."))
    for name in (*ours, *LATE):
        if not name.endswith("__main__"):
            importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped by the system
    while True:
        client, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            answer(client)
        client.close()


def answer(client):
    """Run one command in this process and end it."""
    from sitta.cli import main

    request, streams = receive(client)
    words, folder, variables = json.loads(request)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["sitta", *words]
    client.sendall(f"{os.getpid()}\n".encode())
    code = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        client.sendall(f"{code}\n".encode())
        os._exit(code)


def receive(client):
    """One line of JSON, and the three streams that come with its first part."""
    text, streams, _, _ = socket.recv_fds(client, 1 << 16, 3)
    while not text.endswith(b"\n"):
        text += client.recv(1 << 16)
    return text, array.array("i", streams)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
