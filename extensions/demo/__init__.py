"""``taximeter demo``: an example organisation whose calls go through the real program.

Its content is in ``organization.toml`` and in the files of ``conversations``. A client makes the calls
of today through the proxy, and a scripted upstream on loopback responds to them. The calls of the two
weeks before are spooled as by the proxy, and stored by the recorder's code."""
