"""The names of calls whose response named no model: the requested model, with a mark.

Such a call reached no upstream, or was refused or lost before its response named a model. Its
column ``model`` is NULL. Reports by model list it under this name."""

_MARK = " (requested)"
# SQL over ``usage as u``; null for a call that has a model, or asked for none.
NAME = f"case when u.model is null then u.request_model || '{_MARK}' end"
# SQL over a column ``model`` with such names and '': whether the call has no model.
IS_UNNAMED = f"(model = '' or model glob '*{_MARK}')"


def mark(model: str) -> str:
    """Return the name under which reports list calls that requested ``model`` but got no model."""
    return f"{model}{_MARK}"


def find_requested(name: str) -> str | None:
    """Return the model in such a name, or None if ``name`` is a model of responses."""
    return name.removesuffix(_MARK) if name.endswith(_MARK) else None
