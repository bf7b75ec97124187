"""The script for ``mitmdump -s addon/main.py``: the addon with its settings from the environment.

mitmproxy loads this file under another module name, so it contains only the list of addons. ``python
-m addon`` starts faster."""

from addon.http1.chooser import ChooseHttp1
from addon.process_config import ProcessConfig
from addon.proxy import UsageProxy
from runtime.settings import Settings

settings = Settings.from_env()
addons = [UsageProxy(settings, ProcessConfig.make(settings)), ChooseHttp1("http1")]
