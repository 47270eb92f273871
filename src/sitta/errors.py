"""Errors that a user can mend: each says what is wrong, what is allowed, and what to do."""

from pathlib import Path

from sitta._version import DISTRIBUTION


class SittaError(Exception):
    """Base of every error that a user can cause and can mend.

    Args:
        what: What is wrong, a full sentence.
        allowed: What would have been accepted.
        got: What was given instead.
        fix: What to do about it.

    Example:
        >>> print(SittaError("The step is out of range.", allowed="0 < step <= 1", got="2.0"))
        The step is out of range. Allowed: 0 < step <= 1. Got: 2.0.
    """

    def __init__(self, what: str, *, allowed: str = "", got: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what, self.allowed, self.got, self.fix = what, allowed, got, fix

    def __str__(self) -> str:  # of the attributes, which survive pickling; arguments may not
        parts = {"Allowed": self.allowed, "Got": self.got, "What to do": self.fix}
        said = [f"{label}: {text.removesuffix('.')}." for label, text in parts.items() if text]
        return " ".join([self.what, *said])


class UnsupportedModel(SittaError, TypeError):
    """The model cannot be adapted by this method, or not be read at all."""


class InvalidImage(SittaError, ValueError):
    """The image does not fit the model, or holds values that no model can use."""


class InvalidSetting(SittaError, ValueError):
    """A setting has an unknown name, the wrong type, or a value out of range."""


class DiskFull(SittaError, OSError):
    """There is no room for a file. What was written before is whole, and stays."""


class MissingExtra(SittaError, ImportError):
    """A part of Sitta needs packages that are not installed.

    Args:
        what: The part.
        extra: Name of the extra that brings the packages; empty for Sitta's own dependencies.
        package: The one that could not be imported.
    """

    def __init__(self, what: str, extra: str = "", package: str = "") -> None:
        missing = f": {package}" if package else ""
        said = f"{what} needs packages that are not installed{missing}."
        super().__init__(said, fix=pip_line(extra))


def package_of(error: ModuleNotFoundError) -> str:
    """The package that is not installed; raises the error again if the fault is Sitta's own."""
    package = (error.name or "").partition(".")[0]
    if package in ("", "sitta"):
        raise error
    return package


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; torch and the dynamic loader say it in words."""
    words = ("allocate", "failed to map segment", "out of memory")
    return isinstance(error, MemoryError) or any(said in str(error).lower() for said in words)


def clone() -> Path | None:
    """Folder of the clone that this code runs from; None if it is installed as a package."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else None


def pip_line(extra: str = "") -> str:
    """The command that installs Sitta with an extra: editable in a clone, else by name."""
    options, project = ("-e ", ".") if clone() else ("", DISTRIBUTION)
    return f"pip install {options}" + (f"'{project}[{extra}]'" if extra else project)
