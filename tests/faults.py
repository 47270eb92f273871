"""A disk that fails where a test wants it: at the n-th open, write, sync, rename or new folder."""

import builtins
import errno
import io
import os
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """Counts what is done below a folder, and fails at one of it, or from there on."""

    def __init__(self, folder, at=0, code=errno.ENOSPC, lasting=False):
        self.folder, self.at, self.code, self.lasting = Path(folder), at, code, lasting
        self.steps = []

    def step(self, what, path):
        """One operation; raises if it is the one."""
        if not Path(os.fsdecode(path)).is_relative_to(self.folder):
            return
        self.steps.append(what)
        done = len(self.steps)
        if self.at and (done == self.at or (self.lasting and done > self.at)):
            raise OSError(self.code, os.strerror(self.code), os.fsdecode(path))

    @property
    def failed(self):
        """Whether that operation was reached."""
        return 0 < self.at <= len(self.steps)


class _Raw(io.FileIO):
    """A file of which a failing write puts half on the disk."""

    disk = None

    def write(self, data):
        try:
            self.disk.step("write", self.name)
        except OSError:
            super().write(bytes(data)[: len(data) // 2])
            raise
        return super().write(data)


@contextmanager
def failing(folder, at=0, code=errno.ENOSPC, lasting=False):
    """The disk of a folder, for the block."""
    disk = Disk(folder, at, code, lasting)
    plain = {name: getattr(os, name) for name in ("fsync", "replace", "mkdir")}
    plain_open = builtins.open

    def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, **more):
        if isinstance(file, int) or not set(mode) & set("wax+"):
            return plain_open(file, mode, buffering, encoding, errors, newline, **more)
        disk.step("open", file)
        raw = _Raw(file, mode.replace("b", "").replace("t", ""))
        raw.disk = disk
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def fsync(number):
        disk.step("sync", disk.folder)
        plain["fsync"](number)

    def replace(source, target, **more):
        disk.step("rename", target)
        plain["replace"](source, target, **more)

    def mkdir(path, *args, **more):
        disk.step("mkdir", path)
        plain["mkdir"](path, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        for module in (builtins, io):
            patch.setattr(module, "open", opened)
        for function in (fsync, replace, mkdir):
            patch.setattr(os, function.__name__, function)
        yield disk


def drafts(folder):
    """What is half written."""
    return [str(path) for path in Path(folder).rglob(".draft-*")]
