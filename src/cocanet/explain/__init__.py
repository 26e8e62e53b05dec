"""Why the hierarchy found what it found, as plain values: for figures, pages and anyone else."""
