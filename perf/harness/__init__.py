"""Side-by-side measurement of the gateway and nginx. Standard library only."""
