"""What can be trained: task specs, data readers and checks, models, built-in tasks."""
