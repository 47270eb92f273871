"""The benchmark: plans, runs, statistics, tables and figures. Needs the extra ``bench``."""

from importlib.util import find_spec

from sitta.errors import MissingExtra

for _package in ("pandas", "pydantic", "scipy"):  # MONAI would miss SciPy only while it measures
    if find_spec(_package) is None:
        raise MissingExtra("sitta bench", "bench", _package)
