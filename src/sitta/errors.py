"""Errors that a user can mend: each says what is wrong, what is allowed, and what to do."""


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
        parts = {"Allowed": allowed, "Got": got, "What to do": fix}
        said = [f"{label}: {text.rstrip('.')}." for label, text in parts.items() if text]
        super().__init__(" ".join([what, *said]))
        self.what, self.allowed, self.got, self.fix = what, allowed, got, fix


class UnsupportedModel(SittaError, TypeError):
    """The model cannot be adapted by this method, or not be read at all."""


class InvalidImage(SittaError, ValueError):
    """The image does not fit the model, or holds values that no model can use."""


class InvalidSetting(SittaError, ValueError):
    """A setting has an unknown name, the wrong type, or a value out of range."""


class MissingExtra(SittaError, ImportError):
    """A part of Sitta that needs packages which are not installed.

    Args:
        what: What was asked for.
        extra: The name of the extra.
    """

    def __init__(self, what: str, extra: str) -> None:
        line = f"pip install 'sitta[{extra}]', or from a clone: pip install '.[{extra}]'"
        super().__init__(f"{what} needs packages that are not there.", fix=line)
