"""onnxruntime, as Sitta uses it: on the CPU, and without reports on its use to anybody."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sitta.errors import MissingExtra

PASSIVE = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0"}


def runtime() -> Any:
    """The package itself, if it is installed."""
    # Since 1.29 it reports on its use by itself. Read when it is imported, and never again.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra("An ONNX model", "onnx") from error
    return onnxruntime


def session(path: Path, threads: int | None = None) -> Any:
    """A graph that is ready to run; whatever onnxruntime has to say about it is raised."""
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 4  # silent: what goes wrong is raised
    options.intra_op_num_threads = threads or 0  # 0: as many as there are cores
    for name, value in PASSIVE.items():  # threads sleep while they wait, as those of torch do
        options.add_session_config_entry(name, value)
    how: Any = {"providers": ["CPUExecutionProvider"], "enable_fallback": 0}  # else it prints
    return ort.InferenceSession(str(path), options, **how)
