"""The script for ``mitmdump -s addon/main.py``: the addon with its settings from the environment.

mitmproxy loads this file under a name of its own, so it holds nothing but the list.
``python -m addon`` is the leaner way in.
"""

from addon.http1.chooser import ChooseHttp1
from addon.process_config import ProcessConfig
from addon.proxy import UsageProxy
from runtime.settings import Settings

settings = Settings.from_env()
addons = [UsageProxy(settings, ProcessConfig.make(settings)), ChooseHttp1("http1")]
