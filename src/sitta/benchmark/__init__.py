"""The benchmark: which single-image method helps, by how much, and where it hurts."""
