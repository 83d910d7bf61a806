"""The optimizer: the driver that plans queries, and the ordered list of rules."""
