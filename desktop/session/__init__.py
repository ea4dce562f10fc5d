"""One session of the window, on the GUI thread: intents and events in, snapshots out."""
