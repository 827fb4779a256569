"""What a collection or an encoding is worth, measured and drawn: quality, recall, statistics, their pages and charts."""
