"""The official distributions of ten public data sets, brought into the project's layout."""

from sitta.data.prepare.base import Part, Preparer, Report
from sitta.data.prepare.run import prepare
from sitta.data.prepare.sets import PREPARERS

__all__ = ["PREPARERS", "Part", "Preparer", "Report", "prepare"]
