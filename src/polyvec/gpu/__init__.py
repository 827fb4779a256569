"""Devices: from file to GPU memory, and search there."""
