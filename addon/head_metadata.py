"""The stored metadata of requests and responses: named fields of headers, never all of them."""

from dataclasses import replace
from datetime import datetime

from addon import headers
from addon.redaction import redact_query
from metering import attribution, client_hints
from metering.attribution import Attribution
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
# The headers of a request that are stored, besides hints and the vendor's own.
NAMED = frozenset(
    b"content-encoding user-agent x-claude-code-session-id x-claude-code-agent-id"
    b" x-stainless-retry-count".split()
)


class RequestMetadata:
    """Makes the head of a spool file."""

    def __init__(self, fingerprint_key: bytes, vendor: str) -> None:
        """Use this key for fingerprints of credentials (see ``headers.fingerprint``). ``vendor``
        begins the names of the upstream's own headers."""
        self.fingerprint_key = fingerprint_key
        self._version_header = f"{vendor}-version".encode()
        self._beta_header = f"{vendor}-beta".encode()
        self._workspace_header = f"{vendor}-workspace-id".encode()
        self._profile_header = f"{vendor}-user-profile-id".encode()
        self._stored = NAMED.union(
            client_hints.HEADERS,
            (
                self._version_header,
                self._beta_header,
                self._workspace_header,
                self._profile_header,
            ),
        )

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
        """Return the head of a spool file. Where the body is not kept, names and numbers are read
        from it here. What looks like a credential is left out wherever it stands.

        ``body`` is None where it was too large to be held. ``target`` is the path below the slug with
        its query, without the run that it names. ``record`` is what is made of the exchange."""
        named = {
            name: text
            for name in self._stored & found.keys()
            if (text := drop_credential(found[name].decode("latin-1"))) is not None
        }
        credential = headers.find_credential(found)
        attributed = _read_attribution(found, keeps_text=not endpoint.metadata_only)
        head = RequestHead(
            entry_id=clock.new_id(),
            created_at=clock.format_ms(arrived_at),
            organization_id=endpoint.organization_id,
            proxy_endpoint_id=endpoint.id,
            slug=endpoint.slug,
            metadata_only=endpoint.metadata_only,
            request_bytes=None if body is None else len(body),
            request_body="whole" if is_kept else "omitted",
            credential_hmac=None
            if credential is None
            else headers.fingerprint(credential, self.fingerprint_key, endpoint.organization_id),
            content_encoding=named.get(b"content-encoding"),
            user_agent=named.get(b"user-agent"),
            session_id=named.get(b"x-claude-code-session-id"),
            agent_id=named.get(b"x-claude-code-agent-id"),
            retry_count=named.get(b"x-stainless-retry-count"),
            path_query=redact_query(target),
            api_version=named.get(self._version_header),
            betas=named.get(self._beta_header) or None,
            run_id=drop_credential(run_id),
            credential_kind=None if credential is None else classify_credential(credential),
            workspace_id=named.get(self._workspace_header),
            client_hints=client_hints.collect_hints(named) or None,
            user_profile_id=named.get(self._profile_header),
            record=record,
            attributed_user=attributed.user,
            project=attributed.project,
            tags=attribution.write_tags(attributed.tags),
            attributes_left_out=attributed.left_out or None,
            upstream=endpoint.upstream,
        )
        if body is not None and not is_kept and b"content-encoding" not in found:
            _add_facts(head, parse_facts(body))
        return _without_text(head) if endpoint.metadata_only else head


def _add_facts(head: RequestHead, facts: RequestFacts) -> None:
    """Set what was read in a body that is not kept."""
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


def _read_attribution(found: headers.Index, *, keeps_text: bool) -> Attribution:
    """Return for whom and what a call is made. Where no text is kept, only our own headers say it: who
    sends them knows that we store them."""
    if found.keys().isdisjoint(attribution.HEADERS):
        return attribution.NOTHING
    names = attribution.HEADERS if keeps_text else attribution.OWN_HEADERS
    given = {name: [found[name].decode("latin-1")] for name in names & found.keys()}
    return attribution.read_attribution(given, lambda value: drop_credential(value) is not None)


def _without_text(head: RequestHead) -> RequestHead:
    """Return the head without values of headers that may be text instead of the names that belong there."""
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
    """Makes the head of a response in a spool file."""

    def __init__(self, vendor: str) -> None:
        """Make heads of the responses of an upstream. ``vendor`` begins the names of its own headers."""
        self._organization_header = f"{vendor}-organization-id".encode()
        self._workspace_header = f"{vendor}-workspace-id".encode()
        self._rate_limit_prefix = f"{vendor}-ratelimit-".encode()

    def make_head(self, status_code: int, found: headers.Index) -> ResponseHead:
        """Return what is kept of the head of a response."""
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
