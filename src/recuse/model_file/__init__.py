"""The decision as one safe file: an ONNX graph, its header and tables."""
