"""Leaves out the stock addons of mitmproxy, for whoever imports this before mitmproxy.

Their package imports all fifty, with a web framework and a client of LDAP, which takes a quarter of the
time that the proxy needs to start. With an empty package in its place, each of its modules can still
be imported by itself.
"""

import importlib.util
import sys

_PACKAGE = "mitmproxy.addons"
_spec = importlib.util.find_spec(_PACKAGE)
if _spec is not None:
    sys.modules.setdefault(_PACKAGE, importlib.util.module_from_spec(_spec))
