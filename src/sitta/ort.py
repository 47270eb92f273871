"""onnxruntime, as Sitta uses it: on the CPU, and without reports on its use to anybody."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sitta.errors import MissingExtra

PROVIDERS = ["CPUExecutionProvider"]
NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"  # since 1.29 onnxruntime reports on its use by itself
SILENT = 4  # of its levels: what goes wrong is raised, and need not be printed too


def runtime() -> Any:
    """The package itself.

    Raises:
        MissingExtra: It is not installed.
    """
    os.environ.setdefault(NO_TELEMETRY, "1")  # read when onnxruntime is imported, and never again
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra("An ONNX model", "onnx") from error
    return onnxruntime


def session(path: Path, threads: int | None = None) -> Any:
    """A graph that is ready to run; whatever onnxruntime has to say about it is raised.

    Args:
        path: The file.
        threads: How many it may use; as many as there are cores if None.
    """
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = SILENT
    options.intra_op_num_threads = threads or 0  # 0: as many as there are cores
    return ort.InferenceSession(str(path), options, providers=PROVIDERS)
