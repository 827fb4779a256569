"""Devices: from file to GPU memory at the bus's speed, and search there without decompressing.

Nothing of torch, triton or cupy is imported until a device is asked for.
"""
