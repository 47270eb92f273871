"""Tests mirror ``src/sitta``: one folder for each package."""

from pathlib import Path

ROOT = Path(__file__).parent.parent  # of the clone
