"""The dispatch table does what the stock manager does, with less work."""

from mitmproxy import addonmanager
from mitmproxy.proxy.layers.http._hooks import HttpRequestHook
from mitmproxy.test import taddons, tflow

from addon.core.dispatch_table import DispatchTable


class Everything:
    def __init__(self):
        self.seen = []

    def request(self, flow):
        self.seen.append(("request", flow.id))

    async def response(self, flow):
        self.seen.append(("response", flow.id))


class Failing:
    def request(self, flow):
        raise ValueError("a mistake")


async def test_the_dispatch_table_calls_who_defines_a_hook_and_survives_their_mistakes(caplog):
    everything, flow = Everything(), tflow.tflow(resp=True)
    with taddons.context() as tctx:
        tctx.master.addons = DispatchTable(tctx.master)
        tctx.master.addons.add(Failing())
        await tctx.cycle(everything, flow)
        tctx.master.addons.add(everything)
        for hook in ("request", "response", "unknown"):
            event = type("Hook", (), {"name": hook, "args": lambda self: [flow]})()
            await tctx.master.addons.handle_lifecycle(event)
    assert everything.seen[-2:] == [("request", flow.id), ("response", flow.id)]
    assert "Addon error in request" in caplog.text


class Watcher:
    def __init__(self):
        self.updated = 0

    def update(self, flows):
        self.updated += len(flows)


async def test_the_update_hook_still_reaches_an_addon_that_wants_it():
    watcher, flow = Watcher(), tflow.tflow()
    with taddons.context() as tctx:
        tctx.master.addons = DispatchTable(tctx.master)
        tctx.master.addons.add(watcher)
        event = type("Hook", (), {"name": "request", "args": lambda self: [flow]})()
        await tctx.master.addons.handle_lifecycle(event)
    assert watcher.updated == 1


class Recording:
    """Notes which of its attributes are looked for."""

    def __init__(self):
        self.names = []

    def __getattr__(self, name):
        self.names.append(name)
        raise AttributeError(name)


async def trigger_twice(manager, addon, flow):
    manager.add(Failing())
    manager.chain.append(addon)
    for _ in range(2):  # a table is made the first time
        addon.names.clear()
        await manager.handle_lifecycle(HttpRequestHook(flow))
    return set(addon.names)


async def test_the_stock_manager_still_asks_every_addon():
    with taddons.context() as tctx:
        flow = tflow.tflow()
        assert "update" in await trigger_twice(
            addonmanager.AddonManager(tctx.master), Recording(), flow
        )
        assert await trigger_twice(DispatchTable(tctx.master), Recording(), flow) == set()
