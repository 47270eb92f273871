"""What this machine offers Sitta, what is wrong with it, and what to do. Needs no torch."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitta._util.distribution import EXTRAS, is_installed, requirements
from sitta._version import DISTRIBUTION, __version__
from sitta.errors import SittaError, pip_line

PROBLEM, ADVICE = "problem", "advice"
LEAST_FREE = 500 * 10**6  # bytes: a folder of volumes and its maps
TORCH_PAGE = "https://pytorch.org/get-started/locally/"


@dataclass(frozen=True)
class Finding:
    """Something to do. A problem keeps Sitta from working; advice does not."""

    severity: str
    what: str
    fix: str


@dataclass(frozen=True)
class Diagnosis:
    """All that was looked at."""

    versions: dict[str, str | None]  # None: not installed
    devices: list[str]
    threads: dict[str, Any]
    memory: dict[str, float]  # in GB
    extras: list[dict[str, Any]]
    folders: list[dict[str, Any]]
    zoo: list[dict[str, str]]
    findings: list[Finding]

    @property
    def healthy(self) -> bool:
        """Whether there is no problem; advice may be left."""
        return all(finding.severity != PROBLEM for finding in self.findings)


def diagnose() -> Diagnosis:
    """Look at everything once. Nothing is downloaded, and nothing stays on the disk."""
    findings: list[Finding] = []
    torch = _torch(findings)
    return Diagnosis(
        versions=_versions(findings),
        devices=_devices(torch, findings),
        threads=_threads(torch, findings),
        memory=_memory(),
        extras=[_extra(name) for name in sorted(EXTRAS)],
        folders=_folders(findings),
        zoo=_zoo(findings),
        findings=findings,
    )


def _torch(findings: list[Finding]) -> Any:
    """The module; None where it is missing or cannot be loaded."""
    try:
        import torch
    except ModuleNotFoundError:
        fix = f"{pip_line()}; for the small CPU build choose CPU on {TORCH_PAGE} first"
        what = "torch is missing. Only exported graphs (.onnx) can be run."
        findings.append(Finding(PROBLEM, what, fix))
    except (ImportError, OSError) as error:  # a library of it is missing or does not fit
        reason = str(error).partition("\n")[0]
        what = f"torch is installed and cannot be loaded: {reason}."
        findings.append(Finding(PROBLEM, what, f"install it again, as {TORCH_PAGE} says"))
    else:
        return torch
    return None


def _versions(findings: list[Finding]) -> dict[str, str | None]:
    needed = requirements()
    findings += [
        Finding(PROBLEM, f"{package.problem}.", pip_line())
        for package in needed
        if package.problem and (package.name != "torch" or package.installed)
    ]
    if is_installed("sitta"):
        what = f"A package 'sitta' is installed beside {DISTRIBUTION}: an old Sitta or another "
        fix = f"pip uninstall sitta, then {pip_line()}"
        findings.append(Finding(ADVICE, f"{what}project. Both write the same files.", fix))
    own = {"sitta": __version__, "python": platform.python_version(), "system": platform.platform()}
    return {**own, **{package.name: package.installed for package in needed}}


def _devices(torch: Any, findings: list[Finding]) -> list[str]:
    if torch is None:
        return []
    from sitta._util.devices import usable_devices

    names = [name for name in usable_devices() if name != "auto"]
    if sys.platform == "linux" and torch.version.cuda and "cuda" not in names:
        what = "torch is a CUDA build, and there is no GPU that it can use."
        fix = f"nothing, if it may take gigabytes; else choose CPU on {TORCH_PAGE}"
        findings.append(Finding(ADVICE, what, fix))
    return [f"{n} ({torch.cuda.get_device_name(n)})" if "cuda" in n else n for n in names]


def _threads(torch: Any, findings: list[Finding]) -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    used = None if torch is None else torch.get_num_threads()
    if used is not None and cores and used > cores:
        what = f"torch would compute with {used} threads on {cores} cores."
        findings.append(Finding(ADVICE, what, f"set OMP_NUM_THREADS={cores}"))
    return {"cores": cores, "torch": used, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS")}


def _memory() -> dict[str, float]:
    with suppress(ImportError):
        import psutil

        memory = psutil.virtual_memory()
        return {"total": round(memory.total / 1e9, 1), "free": round(memory.available / 1e9, 1)}
    return {}


def _extra(name: str) -> dict[str, Any]:
    missing = [package.problem for package in requirements(name) if package.problem]
    told = {"name": name, "for": EXTRAS[name], "installed": not missing, "missing": missing}
    return {**told, "install": pip_line(name)}


def _folders(findings: list[Finding]) -> list[dict[str, Any]]:
    """Where Sitta and its libraries write, tried by writing."""
    places = {"temporary files": tempfile.gettempdir, "cache of matplotlib": _cache}
    return [_folder(role, place, findings) for role, place in places.items()]


def _cache() -> str:
    from matplotlib import get_cachedir

    return get_cachedir()


def _folder(role: str, place: Any, findings: list[Finding]) -> dict[str, Any]:
    variable = "TMPDIR" if role.startswith("temp") else "MPLCONFIGDIR"
    told: dict[str, Any] = {"for": role, "path": None, "writable": False, "free": None}
    try:
        told["path"] = place()
        with tempfile.NamedTemporaryFile(dir=told["path"]) as file:
            file.write(b"sitta")
        told |= {"writable": True, "free": shutil.disk_usage(told["path"]).free}
    except ImportError:  # told of among the packages
        return told
    except OSError as error:
        what = f"The folder for {role} cannot be written: {error.strerror or error}."
        findings.append(Finding(PROBLEM, what, f"set {variable} to a folder that can"))
        return told
    if told["free"] < LEAST_FREE:
        what = f"The disk for {role} has {told['free'] / 1e6:.0f} MB left."
        findings.append(Finding(ADVICE, what, f"make room, or set {variable} to another disk"))
    return told


def _zoo(findings: list[Finding]) -> list[dict[str, str]]:
    from sitta.models.zoo import entries, verify

    told = []
    try:
        listed = entries()
    except (SittaError, OSError, ImportError) as error:
        findings.append(_sick(error))
        return []
    for entry in listed:
        problem = ""
        try:
            verify(entry)
        except (SittaError, OSError) as error:
            problem = str(error)
            findings.append(_sick(error))
        told.append({"name": entry.name, "path": str(Path(entry.path)), "problem": problem})
    return told


def _sick(error: Exception) -> Finding:
    """A problem of the zoo."""
    what, fix = getattr(error, "what", str(error)), getattr(error, "fix", "")
    return Finding(PROBLEM, what, fix or "install Sitta again")
