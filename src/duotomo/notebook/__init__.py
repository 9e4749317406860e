"""What notebooks show of objects: HTML from plain arrays and numbers, without any library."""

from duotomo.notebook.drawing import acquisition_html, grid_html
from duotomo.notebook.picture import Picture
from duotomo.notebook.table import table_html

__all__ = ["Picture", "acquisition_html", "grid_html", "table_html"]
