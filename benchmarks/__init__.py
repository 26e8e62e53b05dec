"""What we claim about speed and memory, measured."""
