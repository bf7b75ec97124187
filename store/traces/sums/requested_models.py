"""The names of calls whose response named no model: the model that they asked for, marked.

Such a call reached no upstream, or was refused or lost before its response named a model. Its column
``model`` is NULL. Reports that list models have it under this name.
"""

_MARK = " (requested)"
# SQL over ``usage as u``; null for a call that has a model, or asked for none.
NAME = f"case when u.model is null then u.request_model || '{_MARK}' end"
# SQL over a column ``model`` with such names and '': whether the call has no model.
IS_UNNAMED = f"(model = '' or model glob '*{_MARK}')"


def mark(model: str) -> str:
    """Return the name under which reports list the calls that asked for a model and got none."""
    return f"{model}{_MARK}"


def find_requested(name: str) -> str | None:
    """Return the model that such a name is about, None for the name of a model of responses."""
    return name.removesuffix(_MARK) if name.endswith(_MARK) else None
