"""Inner products and sums of the steps, and changes of the gradient, that a quasi-Newton method remembers."""
