"""Running a plan: workers, cells, measurements and the results folder."""
