"""Pure tensor functions, one for each equation of the paper."""
