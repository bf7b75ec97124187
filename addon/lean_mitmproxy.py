"""Leaves out parts of mitmproxy that are slow to load and not needed. Import it before mitmproxy.

The package of stock addons imports all fifty, with a web framework and an LDAP client. With an empty
package in its place, each of its modules can still be imported alone.

mitmproxy always imports HTTP/3, a command parser and a YAML parser. Here no connection is QUIC, nobody
types commands, and no options are read from files, so the modules for these are replaced: each name in
them is an empty class. Together that saves a third of the time that the proxy needs to start. Modules
of other libraries are replaced only while mitmproxy is imported here; later imports get the real ones."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ABSENT = (
    *("aioquic", "mitmproxy.proxy.layers.http._http3", "mitmproxy.proxy.layers.quic"),
    *("mitmproxy.command_lexer", "pyparsing", "ruamel"),
)
IMPORTED_BY = (
    *("mitmproxy.command", "mitmproxy.optmanager", "mitmproxy.proxy.layers"),
    "mitmproxy.addons.tlsconfig",
)
_ADDONS = "mitmproxy.addons"


class _AbsentModule(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _AbsentModules(MetaPathFinder, Loader):
    """Finds the left-out modules, with an empty replacement for each."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if _is_absent(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _is_absent(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in ABSENT)


def _import_without_absent() -> None:
    """Import the parts of mitmproxy that use the left-out modules, unless they are loaded already."""
    before = {name for name in sys.modules if _is_absent(name)}
    finder = _AbsentModules()
    sys.meta_path.insert(0, finder)
    try:
        for name in IMPORTED_BY:
            importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)
        for name in {name for name in sys.modules if _is_absent(name)} - before:
            if not name.startswith("mitmproxy."):
                del sys.modules[name]


_spec = importlib.util.find_spec(_ADDONS)
if _spec is not None:
    sys.modules.setdefault(_ADDONS, importlib.util.module_from_spec(_spec))
_import_without_absent()
