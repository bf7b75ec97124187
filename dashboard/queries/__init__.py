"""Query processes: Datasette and pages of recorded text outside the web process, and the proxy to
them.
"""
