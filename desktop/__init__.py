"""Peerloom: people who each hold data they will not share train one torch model together."""

__version__ = "0.1.0"
