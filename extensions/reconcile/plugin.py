"""The hooks of the reconciliation."""

from collections.abc import Mapping

from runtime.hooks import hookimpl


@hookimpl
def commands() -> Mapping[str, str]:
    return {"reconcile": "extensions.reconcile.commands"}
