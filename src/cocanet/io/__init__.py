"""Files of trained models: weights, the hub's layout, run folders and their journal."""
