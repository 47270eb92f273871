"""What a method returns: the record, its scores and notes, and how they are shown."""
