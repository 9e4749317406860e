"""The hot loops: arrays in, arrays out, one file per back end and a slow reference beside them."""
