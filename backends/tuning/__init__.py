"""What measuring devices has in common: kernels that tell of costs, and fits of costs to times."""
