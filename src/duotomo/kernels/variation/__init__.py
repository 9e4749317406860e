"""Total variation and negative values of a volume, with their gradients."""
