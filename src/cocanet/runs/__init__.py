"""What a training leaves behind: its folder, its checkpoints and its journal."""
