"""The trainer thread: model, optimiser, data, aggregation."""
