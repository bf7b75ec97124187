"""The hooks of the demo."""

from collections.abc import Mapping

from runtime.hooks import hookimpl


@hookimpl
def commands() -> Mapping[str, str]:
    return {"demo": "extensions.demo.commands"}
