"""Nearest neighbours: exact search, ground truth, recall, and what an encoding costs."""
