"""The environments of the processes of a service."""

from collections.abc import Mapping
from itertools import chain

from runtime import extensions, logs, parent_watch

# Of clients and of other commands, in whose terminal the service may have been started. The proxy gets
# the credential of each call from its client, and a process that needs no secret has none to lose.
CREDENTIAL_VARIABLES = (
    "ANTHROPIC_ADMIN_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "TAXIMETER_API_KEY",
)
# glibc takes blocks above a threshold from the system and gives them back at once. It raises that to the
# largest block that was ever freed, up to 32 MB: from then on the holes of large bodies stay with the
# process. A threshold that is given stays; those of usual bodies are below it, and cost no system call.
GIVING_BACK = {
    "MALLOC_MMAP_THRESHOLD_": str(4 * 1024 * 1024),
    "MALLOC_TRIM_THRESHOLD_": str(8 * 1024 * 1024),
}
# For each arena of the C library 64 MB of address space are reserved, and each thread makes one.
_FEW_ARENAS = "2"
# For its plugins, of which there are none here, pydantic reads the metadata of all packages at each start.
_NO_PLUGINS = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}
_PYTHON = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")


def without_credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without credentials that no process of a service needs."""
    return {name: text for name, text in environ.items() if name not in CREDENTIAL_VARIABLES}


def without_private(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that only the extensions' own processes may see."""
    hidden = tuple(chain(*extensions.call().private_variables()))
    return {name: text for name, text in environ.items() if not name.startswith(hidden)}


def give_back_memory(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with limits for glibc: freed memory of large bodies goes back to the system.

    A limit that ``environ`` has already stays."""
    return {**GIVING_BACK, **environ}


def make_web_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the web process, with settings that save its limited address space."""
    return {"MALLOC_ARENA_MAX": _FEW_ARENAS, **_NO_PLUGINS, **environ}


def make_query_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the query processes, without secrets.

    The log format is the only setting of the service in it."""
    kept = (
        parent_watch.VARIABLE,
        logs.FORMAT_VARIABLE,
        *_PYTHON,
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
    )
    found = {name: environ[name] for name in kept if name in environ}
    # One arena for all threads: each of its own would reserve 64 MB of the address space.
    return found | {"MALLOC_ARENA_MAX": "1"}
