"""``taximeter demo``: an example organisation whose calls go through the real program.

Nothing here writes to a database of calls. A client makes calls through the proxy, a scripted upstream
on loopback responds to them, and everything else is the program as it always is.
"""
