"""Plans: what to train and run, read and checked before anything starts."""
