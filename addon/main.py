"""For ``mitmdump -s addon/main.py``: the addon with its settings from the environment.

mitmproxy loads this file under a name of its own, so it holds nothing but the list.
``python -m addon`` is the leaner way in.
"""

from addon.proxy import UsageProxy
from addon.wiring import Wiring
from runtime.settings import Settings

settings = Settings.from_env()
addons = [UsageProxy(settings, Wiring.make(settings))]
