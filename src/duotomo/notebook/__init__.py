"""What notebooks show of objects: HTML from plain arrays and numbers, without any library."""

from duotomo.notebook.picture import Picture

__all__ = ["Picture"]
