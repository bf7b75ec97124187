"""Loads the program of a worker with the lowest priority while other workers serve.

Import this before all modules that are slow to load."""

from runtime import loading

loading.load_gently("addon.lean_mitmproxy", "addon.proxy", "mitmproxy.addons.proxyserver")
