"""Endpoints, headers, error codes, betas and counts, as they are written in the SDK's source.

It is read and not imported, since that takes two seconds."""

import ast
import re
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

_METHODS = {
    "_get": "GET",
    "_get_api_list": "GET",
    "_post": "POST",
    "_put": "PUT",
    "_patch": "PATCH",
    "_delete": "DELETE",
}
_HEADER = re.compile(r'"((?:anthropic|x)(?:-[a-z]+)+)"', re.IGNORECASE)
_COUNT = re.compile(r"\w+_tokens|list_cost|active_seconds")


def find_version() -> str:
    """Return the version of the installed SDK."""
    return version("anthropic")


def list_endpoints() -> set[str]:
    """Return the endpoints with their methods: ``GET /v1/files/{id}``.

    Raises ValueError where a path is written in a way that is not known yet."""
    calls = (
        node
        for tree in _parse("resources")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _METHODS
    )
    return {endpoint for call in calls if (endpoint := _read_endpoint(call)) is not None}


def list_headers() -> set[str]:
    """Return the vendor's headers that are named, of requests and of responses."""
    places = ("resources", "_client.py", "_base_client.py")
    texts = (path.read_text() for place in places for path in _find(place))
    return {name.lower() for text in texts for name in _HEADER.findall(text)}


def list_error_codes() -> set[str]:
    """Return the statuses and the codes of errors: ``status:429``, ``404:thread_not_found``."""
    (table,) = (
        node.value
        for tree in _parse("_error_classes.py")
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict)
    )
    keys = (ast.literal_eval(key) for key in table.keys if key is not None)
    return {f"status:{status}" if code is None else f"{status}:{code}" for status, code in keys}


def list_betas() -> set[str]:
    """Return the names that the header ``anthropic-beta`` may have."""
    (listed,) = (
        node.slice
        for tree in _parse("types/anthropic_beta_param.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
    )
    return set(ast.literal_eval(listed))


def list_counts() -> set[str]:
    """Return the fields of what upstream sends, of any endpoint, that count tokens, money or hours."""
    return {
        f"{kind.name}.{name}"
        for tree in _parse("types")
        for kind in tree.body
        if isinstance(kind, ast.ClassDef) and "BaseModel" in map(ast.unparse, kind.bases)
        for field in kind.body
        if isinstance(field, ast.AnnAssign)
        if _COUNT.fullmatch(name := ast.unparse(field.target))
    }


def _parse(place: str) -> Iterator[ast.Module]:
    """Yield the trees of a file or of all files of a folder."""
    return (ast.parse(path.read_text()) for path in _find(place))


def _find(place: str) -> list[Path]:
    sdk = find_spec("anthropic")
    assert sdk is not None
    assert sdk.origin is not None
    path = Path(sdk.origin).parent / place
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _read_endpoint(call: ast.Call) -> str | None:
    """Return the endpoint that a method of a resource calls, None for an address out of a response."""
    assert isinstance(call.func, ast.Attribute)
    path, *_ = call.args
    if isinstance(path, ast.Call):  # path_template("/v1/files/{file_id}", file_id=file_id)
        path, *_ = path.args
    if ast.unparse(path) == "batch.results_url":
        return None
    if not isinstance(path, ast.Constant):
        raise ValueError(f"The path in `{ast.unparse(call)[:80]}` cannot be read.")  # noqa: TRY004
    named = [ast.literal_eval(each.value) for each in call.keywords if each.arg == "method"]
    method = named[0].upper() if named else _METHODS[call.func.attr]
    plain = re.sub(r"\{\w+\}", "{id}", str(path.value).partition("?")[0])
    return f"{method} {plain}"
