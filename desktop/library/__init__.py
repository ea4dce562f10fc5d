"""Saved models: store, evaluate, try."""
