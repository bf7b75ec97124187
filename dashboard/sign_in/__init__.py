"""How a session begins and ends."""
