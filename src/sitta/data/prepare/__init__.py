"""The official distributions of ten public data sets, brought into the project's layout.

>>> report = prepare("chest/mcu", "MontgomerySet", "data")          # doctest: +SKIP
>>> len(report.written), report.left_out                            # doctest: +SKIP
(138, [])
"""

from sitta.data.prepare.base import Part, Preparer, Report
from sitta.data.prepare.run import PREPARERS, prepare

__all__ = ["PREPARERS", "Part", "Preparer", "Report", "prepare"]
