"""How peers find each other: one Rendezvous interface, one file per way."""
