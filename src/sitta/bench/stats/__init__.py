"""Statistics on the rows of a benchmark: means, pairs, intervals."""
