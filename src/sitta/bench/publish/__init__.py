"""Results and models for readers: rows, pages, model cards, the zoo."""
