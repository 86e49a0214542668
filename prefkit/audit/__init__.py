"""Audit of a whole run: everything is executed again, every figure is computed again, and what disagrees is listed."""
