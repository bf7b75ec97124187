"""The hooks of a cluster: several nodes that form one service."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from extensions.cluster.settings import CLUSTER, GROUP, NODE_FILE, NODES_FILE, ROLE
from runtime.errors import StartError
from runtime.extension_values import Health, ProcessSpec
from runtime.hooks import hookimpl
from runtime.installing import explain_missing
from runtime.node import PARTS, Node
from runtime.setting import Setting, SettingsError
from runtime.settings import Settings

GRACE_S = 3.0


@hookimpl
def settings() -> Mapping[str, Sequence[Setting[Any]]]:
    return {"Several machines": (CLUSTER, ROLE, GROUP)}


@hookimpl
def node(values: Mapping[str, Any]) -> Node | None:
    if values["cluster"] is not None:
        return Node(
            parts=values["role"],
            copy=values["group"],
            outgoing="outgoing",
            budgets="own-budgets.json",
        )
    if values["role"] != PARTS:
        raise SettingsError("TAXIMETER_ROLE is of a node in a cluster: set TAXIMETER_CLUSTER too")
    return None


@hookimpl
def commands() -> Mapping[str, str]:
    return {"cluster": "extensions.cluster.commands"}


@hookimpl
def before_start(settings: Settings) -> None:
    if settings.of(CLUSTER) is not None:
        check_installed()


@hookimpl
def processes(settings: Settings, environ: Mapping[str, str]) -> Sequence[ProcessSpec]:
    if settings.of(CLUSTER) is None:
        return ()
    given = {CLUSTER.variable: environ[CLUSTER.variable]}
    return (
        ProcessSpec(
            name="cluster",
            module="extensions.cluster",
            variables=given,
            grace_s=GRACE_S,
            is_before_recorder=True,
        ),
    )


@hookimpl
def call_limits(settings: Settings, own: Any, count_rejection: Any) -> Any:
    url = settings.of(CLUSTER)
    if url is None:
        return None
    return import_module("extensions.cluster.proxy_limits").make(url, own, count_rejection)


@hookimpl
def health(node: Node, data_dir: Path) -> Health | None:
    if node.copy is None:
        return None
    found: Health | None = import_module("extensions.cluster.state").read_health(node, data_dir)
    return found


@hookimpl
def erasure_work(settings: Settings) -> Any:
    node = settings.node
    if node.copy is None:
        return None
    module = import_module("extensions.cluster.copy_erasures")
    return module.CopyErasureWork(settings.data_dir, settings.spool_path, node.copy)


@hookimpl
def copies(data_dir: Path) -> Any:
    if not any((data_dir / name).exists() for name in (NODE_FILE, NODES_FILE)):
        return None
    return import_module("extensions.cluster.known_copies").KnownCopies(data_dir)


@hookimpl
def backend(data_dir: Path, local: Any, control: Any, caller: Any, tell: Any) -> Any:
    if not (data_dir / NODES_FILE).exists():
        return None
    module = import_module("extensions.cluster.command_backend")
    return module.open_backend(data_dir, local, control, caller, tell)


@hookimpl
def stated_callers(settings: Settings, pool: Any, bad_keys: Any) -> Any:
    if settings.node.copy is None or "web" in settings.node.parts:
        return None
    return import_module("extensions.cluster.pages.visitors").make(settings, pool, bad_keys)


@hookimpl
def front_door(settings: Settings, app: Any, routes: Any, visitors: Any, pool: Any) -> Any:
    if settings.node.copy is None or "web" not in settings.node.parts:
        return None
    module = import_module("extensions.cluster.pages.front_door")
    return module.make(app, routes, settings.data_dir, visitors, pool)


def check_installed() -> None:
    """Raise StartError unless the library that a cluster needs is installed."""
    if find_spec("redis") is None:
        raise StartError(explain_missing(CLUSTER.variable, "cluster"))
