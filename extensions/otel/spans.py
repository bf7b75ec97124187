"""Spans of finished calls, with the names of OpenTelemetry's conventions for generative AI.

Ids are derived from those of the call and its session, so a call that is sent again has the same ids.
A session is a trace; a call without a session is its own trace."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv.attributes import (
    error_attributes,
    http_attributes,
    server_attributes,
)
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from metering.attribution import parse_tags
from metering.entry import NO_ERROR
from runtime import clock
from runtime.setting_values import Upstream
from store.traces.bodies.bodies import StoredBodies
from store.traces.calls.finished_calls import FinishedCall

MAX_BODY_BYTES = 1024 * 1024  # a larger one is left out
MAX_TEXT = 1000  # characters of any other text: a request may name a model of megabytes
_PREFIX = "taximeter."

type Attribute = str | int | float | bool | tuple[str, ...]


class SpanMaker:
    """Makes the spans of calls to one upstream. ``version`` is this program's."""

    def __init__(self, vendor: str, upstream: Upstream, version: str) -> None:
        self._always: dict[str, Attribute] = {
            gen_ai.GEN_AI_OPERATION_NAME: "chat",
            gen_ai.GEN_AI_PROVIDER_NAME: vendor,
            server_attributes.SERVER_ADDRESS: upstream.host,
            server_attributes.SERVER_PORT: upstream.port,
        }
        self._resource = _make_resource(version)
        self._scope = InstrumentationScope("taximeter", version)

    def make(
        self, organization_id: str, call: FinishedCall, bodies: StoredBodies | None = None
    ) -> ReadableSpan:
        """Return the span of a call."""
        start_ns = int(clock.parse_instant(call.created_at).timestamp() * 1000) * 1_000_000
        went_well = call.outcome in NO_ERROR
        context = make_context(organization_id, call)
        call = _cut(call)
        model = call.request_model or call.model
        return ReadableSpan(
            name="chat" if model is None else f"chat {model}",
            context=context,
            kind=SpanKind.CLIENT,
            resource=self._resource,
            instrumentation_scope=self._scope,
            attributes=self._always
            | _drop_unknown(_list_attributes(organization_id, call))
            | _drop_unknown(_list_bodies(bodies)),
            status=Status(StatusCode.UNSET if went_well else StatusCode.ERROR),
            start_time=start_ns,
            end_time=start_ns + int((call.duration_ms or 0) * 1_000_000),
        )


def _cut(call: FinishedCall) -> FinishedCall:
    """Return a call with each text cut to a maximum length."""
    values = {field.name: getattr(call, field.name) for field in fields(call)}
    texts: dict[str, Any] = {
        name: value[:MAX_TEXT] for name, value in values.items() if isinstance(value, str)
    }
    return replace(call, **texts)


def _make_resource(version: str) -> Resource:
    """Return the resource of the spans; the standard variables may set its name."""
    resource = Resource.create({"service.version": version})
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        return resource.merge(Resource({"service.name": "taximeter"}))
    return resource


def make_context(organization_id: str, call: FinishedCall) -> SpanContext:
    """Return the trace id and span id of a call."""
    trace = call.session_id if call.session_id is not None else call.entry_id
    return SpanContext(
        trace_id=_make_id(16, organization_id, trace),
        span_id=_make_id(8, organization_id, call.entry_id),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _make_id(size: int, *parts: str) -> int:
    """Return a number of ``size`` bytes derived from the parts. It is never 0, which would be invalid."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return int.from_bytes(digest[:size]) or 1


def _list_attributes(organization_id: str, call: FinishedCall) -> dict[str, Attribute | None]:
    went_well = call.outcome in NO_ERROR
    return {
        gen_ai.GEN_AI_REQUEST_MODEL: call.request_model or call.model,
        gen_ai.GEN_AI_REQUEST_MAX_TOKENS: call.max_tokens,
        gen_ai.GEN_AI_REQUEST_STREAM: bool(call.streamed),
        gen_ai.GEN_AI_RESPONSE_MODEL: call.model,
        gen_ai.GEN_AI_RESPONSE_FINISH_REASONS: call.stop_reason and (call.stop_reason,),
        gen_ai.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: _seconds(call.ttfb_ms)
        if call.streamed
        else None,
        gen_ai.GEN_AI_USAGE_INPUT_TOKENS: call.tokens.prompt,  # with the cached ones
        gen_ai.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: call.tokens.cache_creation_input_tokens,
        gen_ai.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: call.tokens.cache_read_input_tokens,
        gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS: call.tokens.output_tokens,
        gen_ai.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: call.thinking_tokens,
        gen_ai.GEN_AI_CONVERSATION_ID: call.session_id,
        gen_ai.GEN_AI_AGENT_ID: call.agent_id,
        http_attributes.HTTP_RESPONSE_STATUS_CODE: call.status_code,
        error_attributes.ERROR_TYPE: None if went_well else call.error_type or call.outcome,
        f"{_PREFIX}entry_id": call.entry_id,
        f"{_PREFIX}organization_id": organization_id,
        f"{_PREFIX}endpoint": call.slug,
        f"{_PREFIX}outcome": call.outcome,
        f"{_PREFIX}client": call.client,
        f"{_PREFIX}upstream_request_id": call.upstream_request_id,
        f"{_PREFIX}user": call.attributed_user,
        f"{_PREFIX}project": call.project,
        f"{_PREFIX}tags": tuple(parse_tags(call.tags)) or None,
        f"{_PREFIX}cost_usd": None if call.cost_cents is None else call.cost_cents / 100,
        f"{_PREFIX}first_byte_s": _seconds(call.ttfb_ms),
        f"{_PREFIX}proxy_overhead_s": _seconds(call.proxy_overhead_ms),
    }


def _list_bodies(bodies: StoredBodies | None) -> dict[str, Attribute | None]:
    if bodies is None:
        return {}
    return {
        f"{_PREFIX}request_body": _read_text(bodies.request),
        f"{_PREFIX}response_body": _read_text(bodies.response),
    }


def _read_text(body: bytes | None) -> str | None:
    """Return a body as text, or None if it is not text or is too large."""
    if body is None or len(body) > MAX_BODY_BYTES:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _drop_unknown(attributes: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    return {name: value for name, value in attributes.items() if value is not None and value != ""}
