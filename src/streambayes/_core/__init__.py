"""Pytrees, precision, numerics and rows: what every other package stands on."""
