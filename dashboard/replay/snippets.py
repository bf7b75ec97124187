"""Programs that send a recorded call again: a curl command, and Python and TypeScript with the SDKs.

A short body is written into the program; a longer one is read from the file as which it was downloaded.
Fields that are not arguments of the SDK go into ``extra_body``, which the SDK sends unchanged.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from urllib.parse import parse_qsl, urlsplit

from metering.entry import UsageLogEntry
from runtime.safe_text import reveal
from wire.json_reading import parse_object

MAX_PASTED_BYTES = 4_000
USUAL_PATH, USUAL_VERSION = "/v1/messages", "2023-06-01"  # of an entry from before paths were kept
MAX_NESTED = 200  # objects and arrays, since writing takes a stack frame or more for each level
# Arguments of ``messages.create`` in every version of the SDK; newer ones lack temperature, for example.
_ARGUMENTS = frozenset(
    {
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "service_tier",
        "stop_sequences",
        "stream",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    }
)
_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a program in any language. ``body`` and ``request`` are None if the program reads them
    from the file."""

    url: str
    path: str
    body: bytes | None
    request: Mapping[str, object] | None
    file_name: str
    headers: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def streams(self) -> bool:
        return self.request is not None and self.request.get("stream") is True


def make_curl(parts: Parts) -> str:
    """Return a command that sends the request again to the same path, with the same version and betas.

    The body is read from the file if it is long, or a shell or terminal might interpret parts of it."""
    lines = [
        f"curl {shlex.quote(reveal(parts.url + parts.path))}",
        '-H "x-api-key: $ANTHROPIC_API_KEY"',
        *(f"-H {shlex.quote(reveal(f'{name}: {value}'))}" for name, value in parts.headers.items()),
        "-H 'content-type: application/json'",
    ]
    pasted = None if parts.body is None else _as_argument(parts.body)
    lines.append(f"--data-binary @{parts.file_name}" if pasted is None else f"--data-raw {pasted}")
    return " \\\n  ".join(lines)


def _as_argument(body: bytes) -> str | None:
    """Return the body quoted for a shell, or None if it must be read from a file."""
    if len(body) > MAX_PASTED_BYTES:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return shlex.quote(text) if reveal(text) == text and "\t" not in text else None


def make_python(parts: Parts) -> str:
    """Return a program that sends the request with the Python SDK."""
    lines = ["import anthropic", "", f"client = anthropic.Anthropic(base_url={parts.url!r})"]
    if parts.request is None:
        lines = ["import inspect", "import json", "from pathlib import Path", "", *lines]
        lines += [
            f"body = json.loads(Path({parts.file_name!r}).read_bytes())",
            "known = inspect.signature(client.messages.create).parameters",
            "response = client.messages.create(",
            "    **{name: value for name, value in body.items() if name in known},",
            "    extra_body={name: value for name, value in body.items() if name not in known},",
        ]
    else:
        extra = {name: value for name, value in parts.request.items() if name not in _ARGUMENTS}
        lines.append("response = client.messages.create(")
        lines += [
            _argument(name, value) for name, value in parts.request.items() if name in _ARGUMENTS
        ]
        lines += [_argument("extra_body", extra)] if extra else []
    if parts.headers:
        lines.append(_argument("extra_headers", dict(parts.headers)))
    if parts.query:
        lines.append(_argument("extra_query", dict(parts.query)))
    lines.append(_argument("timeout", _TIMEOUT_S))
    lines.append(")")
    if parts.request is None:
        lines.append('for event in response if body.get("stream") else [response]:')
    else:
        lines.append("for event in response:" if parts.streams else "for event in [response]:")
    lines.append("    print(event)")
    return reveal("\n".join(lines))


def make_typescript(parts: Parts) -> str:
    """Return a program that sends the request with the TypeScript SDK."""
    lines = ['import Anthropic from "@anthropic-ai/sdk";']
    if parts.request is None:
        lines += ['import { readFileSync } from "node:fs";']
        source = f'JSON.parse(readFileSync({json.dumps(parts.file_name)}, "utf8"))'
    else:
        source = json.dumps(parts.request, indent=2)
    options: dict[str, object] = {"timeout": _TIMEOUT_S * 1_000}
    if parts.headers:
        options["headers"] = parts.headers
    if parts.query:
        options["query"] = parts.query
    lines += [
        "",
        f"const client = new Anthropic({{ baseURL: {json.dumps(parts.url)} }});",
        f"const body = {source};",
        f"const response = await client.messages.create(body, {json.dumps(options)});",
        "for await (const event of body.stream ? response : [response]) console.log(event);",
    ]
    return reveal("\n".join(lines))


def read_parts(
    endpoint_url: str, vendor: str, entry: UsageLogEntry, body: bytes | None, file_name: str
) -> Parts:
    """Return the parts of the program for a call. ``body`` is the request, or None for a long one."""
    path, version = entry.path_query, entry.api_version
    if path is None:
        path, version = USUAL_PATH, USUAL_VERSION
    headers = {}
    if version is not None:  # that of the SDK is another with each of its releases
        headers[f"{vendor}-version"] = version
    if entry.betas:
        headers[f"{vendor}-beta"] = entry.betas
    return Parts(
        url=endpoint_url,
        path=path,
        body=body,
        request=_read_short(body),
        file_name=file_name,
        headers=headers,
        query=dict(parse_qsl(urlsplit(path).query, keep_blank_values=True)),
    )


def _read_short(body: bytes | None) -> Mapping[str, object] | None:
    """Return a request that can be written as arguments, None if it must be read from its file."""
    if body is None or len(body) > MAX_PASTED_BYTES or b"__proto__" in body:
        return None
    if body.count(b"[") + body.count(b"{") > MAX_NESTED:
        return None
    request = parse_object(body)
    if request is None or not {"model", "max_tokens", "messages"} <= request.keys():
        return None
    return request


def _argument(name: str, value: object) -> str:
    first, *rest = pformat(value, width=96, sort_dicts=False).splitlines()
    lines = [f"    {name}={first}", *(f"    {line}" for line in rest)]
    return "\n".join(lines) + ","


def list_programs(parts: Parts) -> list[tuple[str, str]]:
    """Return the programs as (language, text)."""
    programs = {"curl": make_curl, "Python": make_python, "TypeScript": make_typescript}
    return [(language, make(parts)) for language, make in programs.items()]
