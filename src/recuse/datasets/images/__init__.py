"""Folders of images as torch data sets."""
