"""The hooks of the reconciliation."""

from collections.abc import Mapping, Sequence

from extensions.reconcile import FILE
from runtime.data_file import DataFile
from runtime.hooks import hookimpl


@hookimpl
def data_files() -> Sequence[DataFile]:
    return (DataFile(f"traces/*/{FILE}", "copied", "The last reconciliation."),)


@hookimpl
def commands() -> Mapping[str, str]:
    return {"reconcile": "extensions.reconcile.commands"}
