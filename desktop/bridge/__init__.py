"""The peer-transport adapter: the only package that both threads touch."""
