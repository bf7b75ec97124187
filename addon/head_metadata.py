"""The stored metadata of requests and responses: named fields of headers, never all of them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from addon import headers
from addon.redaction import redact_query
from metering import attribution
from metering.attribution import Attribution
from metering.billing import classify_credential
from metering.client_hints import collect_hints, keep_identifiers
from metering.limit_windows import fingerprint_account
from metering.rate_limits import collect_limits
from metering.request_facts import (
    NO_FACTS,
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

    def make_head(
        self,
        endpoint: ProxyEndpoint,
        arrived_at: datetime,
        fields: headers.Fields,
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
        named = headers.by_name(fields)
        is_read = body is not None and not is_kept and b"content-encoding" not in named
        facts = parse_facts(body) if is_read and body is not None else NO_FACTS
        if endpoint.metadata_only:
            facts = keep_plain_names(facts)
        credential = headers.find_credential(named)
        attributed = _read_attribution(named, fields, keeps_text=not endpoint.metadata_only)
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
            content_encoding=drop_credential(named.get(b"content-encoding")),
            user_agent=drop_credential(named.get(b"user-agent")),
            session_id=drop_credential(named.get(b"x-claude-code-session-id"))
            or drop_credential(facts.session_id),
            agent_id=drop_credential(named.get(b"x-claude-code-agent-id")),
            retry_count=drop_credential(named.get(b"x-stainless-retry-count")),
            path_query=redact_query(target),
            api_version=drop_credential(named.get(self._version_header)),
            betas=self._join_betas(fields) if self._beta_header in named else None,
            request_model=drop_credential(facts.model),
            max_tokens=facts.max_tokens,
            message_count=facts.message_count,
            tool_count=facts.tool_count,
            run_id=drop_credential(run_id),
            credential_kind=None if credential is None else classify_credential(credential),
            workspace_id=drop_credential(named.get(self._workspace_header)),
            client_hints=_collect_hints(named),
            effort=drop_credential(facts.effort),
            thinking_budget=facts.thinking_budget,
            cache_ttl=facts.cache_ttl,
            thread=facts.thread,
            thread_previous_id=drop_credential(facts.thread_previous_id),
            user_profile_id=drop_credential(named.get(self._profile_header)),
            bill_to=drop_credential(facts.bill_to),
            free_containers=facts.free_containers,
            record=record,
            account_hmac=fingerprint_account(facts.account_id, endpoint.organization_id)
            if facts.account_id
            else None,
            attributed_user=attributed.user,
            project=attributed.project,
            tags=attribution.write_tags(attributed.tags),
            attributes_left_out=attributed.left_out or None,
            tool_results=pack_results(facts.tool_results),
            upstream=endpoint.upstream,
        )
        return _without_text(head) if endpoint.metadata_only else head

    def _join_betas(self, fields: headers.Fields) -> str | None:
        betas = b",".join(headers.get_all(fields, self._beta_header)).decode("latin-1")
        return drop_credential(betas) or None


def _read_attribution(
    named: Mapping[bytes, str], fields: headers.Fields, *, keeps_text: bool
) -> Attribution:
    """Return for whom and what a call is made. Where no text is kept, only our own headers say it: who
    sends them knows that we store them."""
    if named.keys().isdisjoint(attribution.HEADERS):
        return attribution.NOTHING
    names = attribution.HEADERS if keeps_text else attribution.OWN_HEADERS
    given = {
        name: [value.decode("latin-1") for value in headers.get_all(fields, name)]
        for name in names & named.keys()
    }
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
        client_hints=keep_identifiers(head.client_hints or {}) or None,
    )


def _collect_hints(named: Mapping[bytes, str]) -> dict[str, str] | None:
    hints = collect_hints(named)
    return {name: value for name, value in hints.items() if drop_credential(value)} or None


class ResponseMetadata:
    """Makes the head of a response in a spool file."""

    def __init__(self, vendor: str) -> None:
        """Make heads of the responses of an upstream. ``vendor`` begins the names of its own headers."""
        self._organization_header = f"{vendor}-organization-id".encode()
        self._workspace_header = f"{vendor}-workspace-id".encode()
        self._rate_limit_prefix = f"{vendor}-ratelimit-".encode()

    def make_head(self, status_code: int, fields: headers.Fields) -> ResponseHead:
        """Return what is kept of the head of a response."""
        named = headers.by_name(fields)
        return ResponseHead(
            status_code=status_code,
            content_type=named.get(b"content-type"),
            content_encoding=named.get(b"content-encoding"),
            upstream_request_id=named.get(b"request-id"),
            upstream_organization_id=_cut(named.get(self._organization_header)),
            workspace_id=_cut(named.get(self._workspace_header)),
            rate_limits=collect_limits(named, self._rate_limit_prefix) or None,
        )


def _cut(value: str | None) -> str | None:
    return None if value is None else value[:MAX_ID_CHARS]
