"""How fast the library is beside its peers, in one run; see ``python -m benchmarks.speed --help``."""
