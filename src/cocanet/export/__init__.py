"""A trained COCA-Net for other runtimes: a graph of ONNX, or a program of `torch.export`."""
