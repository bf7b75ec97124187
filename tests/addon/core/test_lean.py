"""Options that are read with less work."""

from mitmproxy.addons import proxyserver
from mitmproxy.test import taddons

from addon.core import lean


def test_options_are_not_copied_for_each_reader():
    with taddons.context(proxyserver.Proxyserver()) as tctx:
        opts = tctx.options
        opts.update(connection_strategy="lazy", mode=["reverse:http://a:1"])
        lean.fix_options(opts)
        assert opts.__dict__["connection_strategy"] == "lazy"
        assert {name: getattr(opts, name) for name in opts.keys()} == {  # noqa: SIM118
            name: option.current() for name, option in opts.items()
        }
        opts.mode.append("regular")
        assert opts.mode == ["reverse:http://a:1"]
