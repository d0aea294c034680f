"""Experiments on images: data, training, figures and pages."""
