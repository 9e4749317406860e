"""Files of other programs: what duotomo reads and writes."""
