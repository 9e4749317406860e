"""What maintainers run: the lock of what is installed, and the bill of materials of the wheel."""
