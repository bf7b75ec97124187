"""Reading of the names and numbers in a message request, which are stored even if bodies are not.

Usually the recorder reads them from the body that it stores. If bodies are not stored, the body
must not be written to the spool, so the proxy reads them from the request. All clients wait
meanwhile, hence the strict bound: the entry of a request that is too large to be read lacks these
fields."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import orjson

from metering.tool_results import NO_RESULTS, LastResults, find_last_results, without_words
from wire.block import CacheTtl
from wire.json_reading import as_object, parse_object
from wire.json_weight import is_light
from wire.request import NO_THREAD, Request, ThreadStep, read_thread
from wire.request_fields import CACHE_TTL, FREE_CONTAINERS, TITLE, find_longest_ttl, read_fields

MAX_VALUES = 100_000  # parsing so many takes some 30 ms
MAX_NAME_CHARS = 200
MAX_USER_ID_CHARS = 1_000
MAX_NUMBER = 10**12

ADVISOR_TOOL = "advisor_"

# What a name may look like where no text is kept: models, sessions, request ids.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._:@/-]{1,100}")

# Claude Code before it sent a header: user_<hash>_account_<uuid>_session_<uuid>
_SESSION = re.compile(r"_session_([0-9A-Za-z-]+)$")
_ACCOUNT = re.compile(r"_account_([0-9A-Za-z-]+)_session_")


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class RequestFacts:
    """The facts of one request. None stands for a field that is missing or of the wrong type.

    ``account_id`` is never stored, only a fingerprint of it; ``tool_results`` are read only if the body
    is not kept."""

    model: str | None = None
    session_id: str | None = None
    max_tokens: int | None = None
    message_count: int | None = None
    tool_count: int | None = None
    effort: str | None = None
    thinking_budget: int | None = None
    cache_ttl: CacheTtl | None = None
    title_text: str | None = None
    thread: ThreadStep | None = None
    thread_previous_id: str | None = None
    bill_to: str | None = None
    free_containers: bool | None = None
    account_id: str | None = None
    tool_results: LastResults = NO_RESULTS


NO_FACTS = RequestFacts()


def parse_facts(body: bytes) -> RequestFacts:
    """Return the facts of a request body without content encoding; empty if it cannot be read quickly."""
    if not is_light(body, MAX_VALUES):
        return NO_FACTS
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return NO_FACTS
    facts = make_facts(read_fields(document, body))
    facts.tool_results = find_last_results(Request(as_object(document)).messages)
    return facts


def find_advisor_model(text: bytes) -> str | None:
    """Return the model that a request names for advice, or None if it names none or several.

    Only a cut response does not name that model, so few requests are read for it."""
    request = Request.parse(text) or Request({})
    tools = (tool for tool in request.tools if tool.kind.startswith(ADVISOR_TOOL))
    models = {_as_name(tool.fields.get("model")) for tool in tools}
    return models.pop() if len(models) == 1 else None


def keep_plain_name(value: str | None) -> str | None:
    """Return a value that looks like a name, or None for one that may be text."""
    return value if value is not None and _PLAIN_NAME.fullmatch(value) else None


def keep_plain_list(values: str | None, separator: str) -> str | None:
    """Return those values of a list that look like names, joined by ``separator``; None without any."""
    names = (keep_plain_name(value.strip()) for value in (values or "").split(separator))
    return separator.join(name for name in names if name) or None


def keep_plain_names(facts: RequestFacts) -> RequestFacts:
    """Return the facts without those that may be text."""
    return replace(
        facts,
        model=keep_plain_name(facts.model),
        session_id=keep_plain_name(facts.session_id),
        effort=keep_plain_name(facts.effort),
        title_text=None,
        thread_previous_id=keep_plain_name(facts.thread_previous_id),
        bill_to=keep_plain_name(facts.bill_to),
        tool_results=keep_plain_results(facts.tool_results),
    )


def keep_plain_results(found: LastResults) -> LastResults:
    """Return results of tools without possible text: only plain names and numbers."""
    return found._replace(
        results=[
            each._replace(tool=keep_plain_name(each.tool), result=without_words(each.result))
            for each in found.results
        ]
    )


def make_facts(fields: Mapping[str, object]) -> RequestFacts:
    """Return the facts in the result of ``read_fields``."""
    message_count = _as_number(fields.get("messages"))
    tool_count = _as_number(fields.get("tools"))
    has_no_tools = message_count is not None and "tools" not in fields
    thread = read_thread(fields["thread"]) if "thread" in fields else NO_THREAD
    user = _read_user(fields["metadata"]) if "metadata" in fields else {}
    return RequestFacts(
        model=_as_name(fields.get("model")),
        session_id=_as_name(user.get("session_id")),
        max_tokens=_as_number(fields.get("max_tokens")),
        message_count=message_count,
        tool_count=0 if has_no_tools else tool_count,
        effort=_as_name(fields.get("output_config")),
        thinking_budget=_as_number(fields.get("thinking")),
        cache_ttl=find_longest_ttl(fields.get(CACHE_TTL)),
        title_text=_as_name(fields.get(TITLE)),
        thread=thread.step,
        thread_previous_id=_as_name(thread.previous_id),
        bill_to=_as_name(fields.get("billing_policy")),
        free_containers=FREE_CONTAINERS in fields or None,
        account_id=_as_name(user.get("account_uuid")),
    )


def _read_user(metadata: object) -> Mapping[str, object]:
    """Return the ids in ``metadata.user_id``: JSON, or a text that ends with account and session."""
    user_id = as_object(metadata).get("user_id")
    if not isinstance(user_id, str) or len(user_id) > MAX_USER_ID_CHARS:
        return {}
    if not user_id.lstrip().startswith("{"):
        session, account = _SESSION.search(user_id), _ACCOUNT.search(user_id)
        return {
            "session_id": session[1] if session else None,
            "account_uuid": account[1] if account else None,
        }
    return parse_object(user_id.encode("utf-8", "replace")) or {}


def _as_name(value: object) -> str | None:
    return value[:MAX_NAME_CHARS] if isinstance(value, str) else None


def _as_number(value: object) -> int | None:
    # type(), because a bool is an int too
    return value if type(value) is int and 0 <= value <= MAX_NUMBER else None
