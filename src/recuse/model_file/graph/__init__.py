"""Conversion of fitted estimators to ONNX graphs."""
