"""The metadata of requests and responses that is stored: selected header fields, never all of them."""

import re
from dataclasses import replace
from datetime import datetime

from addon import headers
from metering import attribution, client_hints
from metering.billing import classify_credential
from metering.limit_windows import fingerprint_account
from metering.rate_limits import collect_limits
from metering.request_facts import (
    RequestFacts,
    keep_plain_list,
    keep_plain_name,
    keep_plain_names,
    parse_facts,
)
from runtime import clock
from runtime.credential_texts import drop_credential
from store.control.database import ProxyEndpoint
from store.spool.format import Record, RequestHead, ResponseHead, pack_results

MAX_ID_CHARS = 200
MAX_TARGET_CHARS = 2_000
_KNOWN = frozenset({"beta=true", "beta=false"})
_PARAMETER = re.compile(r"[^&;]+")
# A value without a name may end with the padding of base64, which looks like an empty value.
_NAMED = re.compile(r"([A-Za-z][A-Za-z_-]{0,31}=)(?!=*\Z).*", re.DOTALL)
# The headers of a request that are stored, besides hints, and the fields that they become.
NAMED = {
    b"content-encoding": "content_encoding",
    b"user-agent": "user_agent",
    b"x-claude-code-session-id": "session_id",
    b"x-claude-code-agent-id": "agent_id",
    b"x-stainless-retry-count": "retry_count",
}
# The same of the vendor's own, without the name of the vendor.
OF_VENDOR = {
    "version": "api_version",
    "beta": "betas",
    "workspace-id": "workspace_id",
    "user-profile-id": "user_profile_id",
}


class RequestMetadata:
    """Makes the head of a spool file: the metadata of its request."""

    def __init__(self, fingerprint_key: bytes, vendor: str) -> None:
        """Use ``fingerprint_key`` for fingerprints of credentials (see ``headers.fingerprint``).

        ``vendor`` is the prefix of the upstream's own headers."""
        self.fingerprint_key = fingerprint_key
        of_vendor = {f"{vendor}-{name}".encode(): kept for name, kept in OF_VENDOR.items()}
        self._fields = NAMED | of_vendor
        self._stored = self._fields.keys() | client_hints.HEADERS.keys()

    def make_head(
        self,
        endpoint: ProxyEndpoint,
        arrived_at: datetime,
        found: headers.Index,
        body: bytes | None,
        target: str,
        run_id: str | None,
        record: Record = "messages",
        *,
        is_kept: bool,
    ) -> RequestHead:
        """Return the head of a spool file.

        ``is_kept``: the body is stored; otherwise facts are read from it here. ``body`` is None if it
        was too large to be held. ``target`` is the path below the slug with its query, without the run
        id. ``record`` is the kind of record that the exchange becomes. Values that look like a
        credential are left out."""
        head = RequestHead(
            entry_id=clock.new_id(),
            created_at=clock.format_ms(arrived_at),
            organization_id=endpoint.organization_id,
            proxy_endpoint_id=endpoint.id,
            slug=endpoint.slug,
            metadata_only=endpoint.metadata_only,
            request_bytes=None if body is None else len(body),
            request_body="whole" if is_kept else "omitted",
            path_query=redact_query(target),
            run_id=drop_credential(run_id),
            record=record,
            upstream=endpoint.upstream,
        )
        self._add_named(head, found)
        _add_attribution(head, found)
        if body is not None and not is_kept and b"content-encoding" not in found:
            _add_facts(head, parse_facts(body))
        return _without_text(head) if endpoint.metadata_only else head

    def _add_named(self, head: RequestHead, found: headers.Index) -> None:
        """Set the fields that come from headers, and the kind and fingerprint of the credential."""
        named = {
            name: text
            for name in self._stored & found.keys()
            if (text := drop_credential(found[name].decode("latin-1"))) is not None
        }
        for name in self._fields.keys() & named.keys():
            setattr(head, self._fields[name], named[name])
        head.betas = head.betas or None
        head.client_hints = client_hints.collect_hints(named) or None
        credential = headers.find_credential(found)
        if credential is not None:
            head.credential_kind = classify_credential(credential)
            head.credential_hmac = headers.fingerprint(
                credential, self.fingerprint_key, head.organization_id
            )


def redact_query(target: str) -> str:
    """Return a path and its query, cut to MAX_TARGET_CHARS, with unknown parameters' values replaced.

    The upstream API expects no credential there, but a client or a gateway may be configured to send
    one, under any name and in any encoding. So only parameters that are known to hold none are kept;
    of the others the name is kept if it is a plain word, and never the value."""
    path, question_mark, query = target[:MAX_TARGET_CHARS].partition("?")
    return (path + question_mark + _PARAMETER.sub(_redact, query))[:MAX_TARGET_CHARS]


def _redact(parameter: re.Match[str]) -> str:
    if parameter[0] in _KNOWN:
        return parameter[0]
    named = _NAMED.fullmatch(parameter[0])
    return (named[1] if named else "") + "REDACTED"


def _add_facts(head: RequestHead, facts: RequestFacts) -> None:
    """Set the facts that were read from a body which is not stored."""
    if head.metadata_only:
        facts = keep_plain_names(facts)
    head.session_id = head.session_id or drop_credential(facts.session_id)
    head.request_model = drop_credential(facts.model)
    head.max_tokens = facts.max_tokens
    head.message_count = facts.message_count
    head.tool_count = facts.tool_count
    head.effort = drop_credential(facts.effort)
    head.thinking_budget = facts.thinking_budget
    head.cache_ttl = facts.cache_ttl
    head.thread = facts.thread
    head.thread_previous_id = drop_credential(facts.thread_previous_id)
    head.bill_to = drop_credential(facts.bill_to)
    head.free_containers = facts.free_containers
    if facts.account_id:
        head.account_hmac = fingerprint_account(facts.account_id, head.organization_id)
    head.tool_results = pack_results(facts.tool_results)


def _add_attribution(head: RequestHead, found: headers.Index) -> None:
    """Set user, project and tags of a call.

    If no text is stored, they are read from our own headers alone, whose senders know that we store
    them."""
    if found.keys().isdisjoint(attribution.HEADERS):
        return
    names = attribution.OWN_HEADERS if head.metadata_only else attribution.HEADERS
    given = {name: [found[name].decode("latin-1")] for name in names & found.keys()}
    read = attribution.read_attribution(given, lambda value: drop_credential(value) is not None)
    head.attributed_user, head.project = read.user, read.project
    head.tags = attribution.write_tags(read.tags)
    head.attributes_left_out = read.left_out or None


def _without_text(head: RequestHead) -> RequestHead:
    """Return the head without values that may be text in place of the names expected there."""
    return replace(
        head,
        content_encoding=keep_plain_list(head.content_encoding, ","),
        session_id=keep_plain_name(head.session_id),
        agent_id=keep_plain_name(head.agent_id),
        retry_count=keep_plain_name(head.retry_count),
        api_version=keep_plain_name(head.api_version),
        workspace_id=keep_plain_name(head.workspace_id),
        user_profile_id=keep_plain_name(head.user_profile_id),
        betas=keep_plain_list(head.betas, ","),
        client_hints=client_hints.keep_identifiers(head.client_hints or {}) or None,
    )


class ResponseMetadata:
    """Makes the head of a response in a spool file: the metadata of the response."""

    def __init__(self, vendor: str) -> None:
        """Use ``vendor`` as the prefix of the upstream's own headers."""
        self._organization_header = f"{vendor}-organization-id".encode()
        self._workspace_header = f"{vendor}-workspace-id".encode()
        self._rate_limit_prefix = f"{vendor}-ratelimit-".encode()

    def make_head(self, status_code: int, found: headers.Index) -> ResponseHead:
        """Return the metadata to store of a response's head."""
        return ResponseHead(
            status_code=status_code,
            content_type=_decode(found.get(b"content-type")),
            content_encoding=_decode(found.get(b"content-encoding")),
            upstream_request_id=_decode(found.get(b"request-id")),
            upstream_organization_id=_decode(found.get(self._organization_header), MAX_ID_CHARS),
            workspace_id=_decode(found.get(self._workspace_header), MAX_ID_CHARS),
            rate_limits=collect_limits(found, self._rate_limit_prefix) or None,
        )


def _decode(value: bytes | None, most_chars: int | None = None) -> str | None:
    return None if value is None else value[:most_chars].decode("latin-1")
