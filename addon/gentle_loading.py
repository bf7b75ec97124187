"""Loads the program of a worker with the lowest priority while others serve.

Import this before all that is slow to load.
"""

from runtime import loading

loading.load_gently("addon.lean_mitmproxy", "addon.proxy", "mitmproxy.addons.proxyserver")
