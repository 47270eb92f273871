"""The InTEnt paper (arXiv 2402.09604) as data."""
