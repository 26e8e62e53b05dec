"""Export of a trained COCA-Net for other runtimes: an ONNX graph, or a program of `torch.export`."""
