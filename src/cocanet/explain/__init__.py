"""Why the hierarchy predicts what it predicts, as plain values; `figures` draws them."""
