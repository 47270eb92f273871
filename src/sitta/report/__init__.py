"""The report of a prediction run: one HTML file that needs nothing else."""
