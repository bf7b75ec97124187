"""The schema of a trace database, as migrations. It has the calls of one organisation, by four
rules:

- **Bodies apart from entries.** ``usage`` has every scalar of an entry and no body, so facets and sums
  read few pages. Bodies are in tables of their own, keyed by the same id.
- **Repeated text is stored once.** A request repeats the whole conversation before it. It is cut into
  ``pieces``, each stored once by its hash; runs of pieces are ``segments``, also stored once;
  ``request_bodies`` has a short list of segment ids. So a call takes only the space of its new text,
  however long its session is.
- **SQL reads everything.** The view ``usage_log`` is the contract with analysts: it joins the pieces to
  the exact body. Text is stored as TEXT. A body that is not UTF-8 or contains NUL would be TEXT that
  readers cannot decode, so it is stored whole as a BLOB, and the view returns a BLOB.
- **Hourly sums.** ``usage_hourly`` is updated in the transaction that inserts. The sums stay when
  retention removes their entries.

Foreign keys are declared for readers (Datasette makes links of them) and checked by ``verify``. They
are not enforced, because that would cost a lookup per insert, and only one module writes them.

A change is a new function at the bottom, never an edit of one that was released.
"""

from collections.abc import Mapping

from store.migrations import Database, Migrations
from store.traces.hourly_copy import take_copy
from store.traces.savings import savings_daily
from store.traces.search import index as search_index, progress as search_progress

migrations = Migrations("traces")


def _add_to_usage(db: Database, columns: Mapping[str, str]) -> None:
    """Add columns, given by name with their types, to ``usage`` and at the end of the view."""
    for name, kind in columns.items():
        db.execute(f"alter table usage add column {name} {kind}")
    _add_to_view(db, {name: f"u.{name}" for name in columns})


def _add_to_view(db: Database, columns: Mapping[str, str]) -> None:
    """Add columns, given by name with their SQL over ``usage as u``, at the end of the view."""
    (view,) = db.execute("select sql from sqlite_schema where name = 'usage_log'").fetchone()
    select, end, rest = view.rpartition("from usage as u")
    added = ", ".join(
        sql if sql == f"u.{name}" else f"{sql} as {name}" for name, sql in columns.items()
    )
    db.execute("drop view usage_log")
    db.execute(f"{select.rstrip()},\n            {added}\n        {end}{rest}")


def _show_days(db: Database) -> None:
    """Make the view ``usage_days`` anew, with the columns that ``usage_daily`` has now."""
    names = [row[1] for row in db.execute("pragma table_info(usage_daily)") if row[1] != "day"]
    columns = ", ".join(names)
    db.execute("drop view if exists usage_days")
    db.execute(
        f"""
        create view usage_days as
        select day, {columns} from usage_daily
        union all
        select substr(hour, 1, 10) as day, {columns} from usage_hourly
        where hour < coalesce(
            -- The days up to this one are not in usage_daily yet: 20260131.
            (select printf('%04d-%02d-%02d~', next_id / 10000, next_id / 100 % 100, next_id % 100)
             from backfills where name = 'daily sums'),
            ''
        )
        """  # noqa: S608 - our own names
    )


@migrations()
def m001_usage_bodies_and_rollups(db: Database) -> None:
    """Create the first schema of a trace database."""
    for statement in (
        # AUTOINCREMENT: ids are in order of insertion and never used again, which readers that
        # remember an id rely on, and retention too (whatever is new has a higher id).
        """
        create table usage (
            id integer primary key autoincrement,
            entry_id text not null unique,
            created_at text not null,
            proxy_endpoint_id text not null,
            slug text not null,
            model text,
            input_tokens integer,
            output_tokens integer,
            cache_creation_input_tokens integer,
            cache_read_input_tokens integer,
            cost_cents real,                -- null: not known, never a guess
            duration_ms real,
            status_code integer,            -- null: upstream gave none
            streamed integer not null,
            outcome text not null,
            usage_source text not null,
            ttfb_ms real,
            proxy_overhead_ms real,
            request_model text,
            upstream_request_id text,
            session_id text,
            agent_id text,
            client text,
            service_tier text,
            speed text,
            inference_geo text,
            retry_count integer,
            request_bytes integer,          -- on the wire
            response_bytes integer,
            error_type text,
            credential_hmac text,
            request_body_length integer,    -- bytes after decoding; null: the body was not kept
            response_body_length integer
        )
        """,
        "create index usage_created_at on usage (created_at)",
        "create index usage_proxy_endpoint on usage (proxy_endpoint_id, created_at)",
        "create index usage_model on usage (model)",
        "create index usage_status_code on usage (status_code, created_at)",
        """
        create table pieces (
            id integer primary key autoincrement,
            hash blob not null unique,      -- SHA-256, first 16 bytes
            text text not null
        )
        """,
        """
        create table segments (
            id integer primary key autoincrement,
            hash blob not null unique,      -- of the hashes of its pieces
            piece_ids text not null         -- JSON array, in order
        )
        """,
        # Apart from the responses, so that retention can read all the lists without the texts.
        """
        create table request_bodies (
            usage_id integer primary key references usage(id),
            sha256 blob not null,
            segment_ids text,               -- JSON array, in order; null: see whole
            whole blob                      -- a body that is not text
        )
        """,
        """
        create table response_bodies (
            usage_id integer primary key references usage(id),
            sha256 blob not null,
            body text                       -- or a BLOB, when it is not text
        )
        """,
        # Rates and cents are REAL: the shortest decimal of a double is the one that was stored as
        # long as it has 15 digits or fewer, which prices have, and SQL can then sum and compare.
        """
        create table usage_cost (
            usage_id integer not null references usage(id),
            line integer not null,
            pass_index integer not null,
            model text,
            component text not null,
            quantity integer not null,
            prompt_tokens integer not null,
            rate_usd real,                  -- per million tokens, per thousand searches
            multiplier real,
            price_version text,
            cents real,
            primary key (usage_id, line)
        ) without rowid
        """,
        """
        create table usage_hourly (
            hour text not null,             -- YYYY-MM-DDTHH, UTC
            proxy_endpoint_id text not null,
            slug text not null,
            model text not null,            -- '': not known
            entries integer not null,
            errors integer not null,        -- neither complete nor ended by the client
            unpriced integer not null,      -- there is usage, but no known price
            timed integer not null,         -- entries that have a duration
            input_tokens integer not null,
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cost_cents real not null,
            duration_ms real not null,
            primary key (hour, proxy_endpoint_id, slug, model)
        ) without rowid
        """,
        # One row per flush of the proxy, so that a flush read again after a crash changes nothing.
        """
        create table rejections (
            flush_id text not null,
            hour text not null,
            proxy_endpoint_id text not null,
            slug text not null,
            bucket text not null,
            count integer not null,
            primary key (flush_id, hour, proxy_endpoint_id, slug, bucket)
        ) without rowid
        """,
        """
        create view rejections_hourly as
        select hour, proxy_endpoint_id, slug, bucket, sum(count) as count
        from rejections group by hour, proxy_endpoint_id, slug, bucket
        """,
        # Segments and pieces of removed entries that are perhaps unused: the work list of retention,
        # stored so that the next run continues after one that was killed.
        "create table loose_segments (id integer primary key)",
        "create table loose_pieces (id integer primary key)",
        # Scalar sub-queries rather than joins: SQLite drops those of columns nobody selects. The
        # order of the pieces is that of the ordered sub-query. `order by` inside group_concat needs
        # SQLite 3.44; until then a test over thousands of pieces holds this down.
        """
        create view usage_log as
        select
            u.id, u.entry_id, u.created_at, u.proxy_endpoint_id, u.slug, u.model,
            u.input_tokens, u.output_tokens,
            u.cache_creation_input_tokens, u.cache_read_input_tokens,
            u.cost_cents, u.duration_ms, u.status_code,
            (
                select case when q.segment_ids is null then q.whole else coalesce((
                    select group_concat(text, '') from (
                        select p.text as text
                        from json_each(q.segment_ids) as s
                        cross join segments as g on g.id = s.value
                        cross join json_each(g.piece_ids) as k
                        cross join pieces as p on p.id = k.value
                        order by s.key, k.key
                    )
                ), '') end
                from request_bodies as q where q.usage_id = u.id
            ) as request_body,
            (select r.body from response_bodies as r where r.usage_id = u.id) as response_body,
            u.streamed, u.outcome, u.usage_source, u.ttfb_ms, u.proxy_overhead_ms,
            u.request_model, u.upstream_request_id, u.session_id, u.agent_id, u.client,
            u.service_tier, u.request_bytes, u.response_bytes, u.error_type, u.credential_hmac,
            u.speed, u.inference_geo, u.retry_count
        from usage as u
        """,
    ):
        db.execute(statement)


@migrations()
def m002_find_the_calls_of_a_session(db: Database) -> None:
    """Index calls by session, and in it in order of insertion: an index ends with the id.

    Clients that name no session pay nothing for it."""
    db.execute("create index usage_session on usage (session_id) where session_id is not null")


@migrations()
def m003_how_the_request_was_sent_and_what_is_kept(db: Database) -> None:
    """Add what it takes to send a request again, its few numbers, and whether its bodies are whole.

    All of these are null in earlier rows. Calls are listed by arrival, also those of one model, so the
    index on the model has the time as its second column."""
    for column in (
        "body_notes text",                  # null: both bodies are whole, as far as there are any
        "path_query text",
        "api_version text",
        "betas text",
        "max_tokens integer",
        "message_count integer",
        "tool_count integer",
    ):  # fmt: skip
        db.execute(f"alter table usage add column {column}")
    for statement in (
        "drop index usage_model",
        "create index usage_model on usage (model, created_at)",
        "drop view usage_log",
        """
        create view usage_log as
        select
            u.id, u.entry_id, u.created_at, u.proxy_endpoint_id, u.slug, u.model,
            u.input_tokens, u.output_tokens,
            u.cache_creation_input_tokens, u.cache_read_input_tokens,
            u.cost_cents, u.duration_ms, u.status_code,
            (
                select case when q.segment_ids is null then q.whole else coalesce((
                    select group_concat(text, '') from (
                        select p.text as text
                        from json_each(q.segment_ids) as s
                        cross join segments as g on g.id = s.value
                        cross join json_each(g.piece_ids) as k
                        cross join pieces as p on p.id = k.value
                        order by s.key, k.key
                    )
                ), '') end
                from request_bodies as q where q.usage_id = u.id
            ) as request_body,
            (select r.body from response_bodies as r where r.usage_id = u.id) as response_body,
            u.streamed, u.outcome, u.usage_source, u.ttfb_ms, u.proxy_overhead_ms,
            u.request_model, u.upstream_request_id, u.session_id, u.agent_id, u.client,
            u.service_tier, u.request_bytes, u.response_bytes, u.error_type, u.credential_hmac,
            u.speed, u.inference_geo, u.retry_count,
            u.body_notes, u.path_query, u.api_version, u.betas,
            u.max_tokens, u.message_count, u.tool_count
        from usage as u
        """,
    ):
        db.execute(statement)


@migrations()
def m004_order_the_calls_of_an_agent_by_arrival(db: Database) -> None:
    """Index the calls of an agent by arrival.

    A session may hold several agents, whose calls take turns. The neighbours of a call are those of
    its own agent, found without sorting a session of thousands."""
    db.execute("drop index usage_session")
    db.execute(
        "create index usage_session on usage (session_id, agent_id, created_at)"
        " where session_id is not null"
    )


@migrations()
def m005_group_the_calls_of_a_run(db: Database) -> None:
    """Add the run that the client's base URL names, and find its calls without reading the others.

    Null for calls that name none, and for all rows from before."""
    for statement in (
        "alter table usage add column run_id text",
        "create index usage_run on usage (run_id) where run_id is not null",
        "drop view usage_log",
        """
        create view usage_log as
        select
            u.id, u.entry_id, u.created_at, u.proxy_endpoint_id, u.slug, u.model,
            u.input_tokens, u.output_tokens,
            u.cache_creation_input_tokens, u.cache_read_input_tokens,
            u.cost_cents, u.duration_ms, u.status_code,
            (
                select case when q.segment_ids is null then q.whole else coalesce((
                    select group_concat(text, '') from (
                        select p.text as text
                        from json_each(q.segment_ids) as s
                        cross join segments as g on g.id = s.value
                        cross join json_each(g.piece_ids) as k
                        cross join pieces as p on p.id = k.value
                        order by s.key, k.key
                    )
                ), '') end
                from request_bodies as q where q.usage_id = u.id
            ) as request_body,
            (select r.body from response_bodies as r where r.usage_id = u.id) as response_body,
            u.streamed, u.outcome, u.usage_source, u.ttfb_ms, u.proxy_overhead_ms,
            u.request_model, u.upstream_request_id, u.session_id, u.agent_id, u.client,
            u.service_tier, u.request_bytes, u.response_bytes, u.error_type, u.credential_hmac,
            u.speed, u.inference_geo, u.retry_count,
            u.body_notes, u.path_query, u.api_version, u.betas,
            u.max_tokens, u.message_count, u.tool_count, u.run_id
        from usage as u
        """,
    ):
        db.execute(statement)


@migrations()
def m006_who_pays_and_what_the_request_was_for(db: Database) -> None:
    """Add what a call says of itself beside tokens and cost, and the rate limits of the upstream.

    Null in earlier rows. What their bodies say is filled in later, newest first, as ``backfills`` has it:
    ``next_id`` is the newest row that is still to be read."""
    _add_to_usage(
        db,
        {
            "stop_reason": "text",
            "refusal_category": "text",
            "thinking_tokens": "integer",
            "cache_write_1h_tokens": "integer",
            "web_search_requests": "integer",
            "output_tokens_per_s": "real",
            "effort": "text",
            "thinking_budget": "integer",
            "cache_ttl": "text",
            "title_text": "text",
            "parent_agent_id": "text",
            "request_class": "text",
            "prompt_id": "text",
            "client_hints": "text",
            "billing": "text",
            "overage": "integer",
            "upstream_organization_id": "text",
            "workspace_id": "text",
        },
    )
    for statement in (
        """
        create table rate_limits (
            usage_id integer primary key references usage(id),
            requests_limit integer,
            requests_remaining integer,
            requests_reset_at text,
            tokens_limit integer,
            tokens_remaining integer,
            tokens_reset_at text,
            input_tokens_limit integer,
            input_tokens_remaining integer,
            input_tokens_reset_at text,
            output_tokens_limit integer,
            output_tokens_remaining integer,
            output_tokens_reset_at text,
            unified_status text,
            unified_claim text,
            unified_reset_at text,
            unified_5h_status text,
            unified_5h_utilization real,
            unified_5h_reset_at text,
            unified_7d_status text,
            unified_7d_utilization real,
            unified_7d_reset_at text,
            overage_status text,
            overage_utilization real,
            overage_in_use integer,
            retry_after_s real,
            other text                      -- JSON object: the rest of the family
        )
        """,
        """
        create table rate_limits_hourly (
            hour text not null,             -- YYYY-MM-DDTHH, UTC
            credential_hmac text not null,  -- '': none
            calls integer not null,
            rate_limited integer not null,  -- status 429
            overloaded integer not null,    -- status 529
            retries integer not null,
            retry_after_s real not null,
            requests_share real,            -- shares: the lowest that remained; null: never stated
            tokens_share real,
            input_tokens_share real,
            output_tokens_share real,
            unified_5h_share real,
            unified_7d_share real,
            primary key (hour, credential_hmac)
        ) without rowid
        """,
        "create table backfills (name text primary key, next_id integer not null) without rowid",
        "insert into backfills select 'body fields', max(id) from usage having max(id) is not null",
    ):
        db.execute(statement)


@migrations()
def m007_say_why_a_line_of_a_cost_is_not_billed(db: Database) -> None:
    """Add to each line item the speed of its pass, why it is not billed, and what makes it uncertain.

    All are null in earlier rows: the speed is that of the call then, or the standard one where the pass
    is of another model, and what was not billed has no line."""
    for column in ("speed text", "unbilled_reason text", "note text"):
        db.execute(f"alter table usage_cost add column {column}")


@migrations()
def m008_mark_what_is_estimated(db: Database) -> None:
    """Mark estimated line items, keep the estimated part of each cost, and sum both by hour.

    Earlier rows have no estimates. Their hours count no calls that may have been billed.
    ``output_sizes`` has what the estimates are made by: for each model, how many characters came in
    complete responses and how many tokens they were, where older calls weigh less and less."""
    _add_to_usage(db, {"estimated_cents": "real"})
    for statement in (
        "alter table usage_cost add column estimated integer not null default 0",
        "alter table usage_hourly add column estimated_cents real not null default 0",
        "alter table usage_hourly add column maybe_billed integer not null default 0",
        """
        create table output_sizes (
            model text primary key,
            calls integer not null,
            characters real not null,
            tokens real not null,
            thinking_characters real not null,
            thinking_tokens real not null
        ) without rowid
        """,
    ):
        db.execute(statement)


@migrations()
def m009_book_each_pass_to_the_model_that_ran_it(db: Database) -> None:
    """Make the hourly sums anew, by client, credential and billing too, with their tokens told apart.

    What there is, is kept without these, and ``backfills`` notes up to which entry it is to be booked
    anew: ``store.traces.rebooking`` does that a little at a time. Where there is much, it has been copied
    before (``store.traces.hourly_copy``)."""
    take_copy(db.conn)
    db.execute(
        "insert into backfills select 'hourly sums', max(id) from usage having max(id) is not null"
    )


@migrations()
def m010_estimate_the_streams_that_were_cut_before(db: Database) -> None:
    """Note that streams which were cut before there were estimates are still to be estimated."""
    db.execute(
        "insert into backfills select 'cut streams', max(id) from usage having max(id) is not null"
    )


@migrations()
def m011_sum_up_sessions(db: Database) -> None:
    """Add the sums of each session. Those of the calls that are there are added later, as ``backfills``
    has it."""
    for statement in (
        """
        create table sessions (
            session_id text primary key,
            title text,                     -- first thing that was said; null: not known
            title_order text not null,      -- of the call that the title is from: the lowest wins
            started_at text not null,       -- of the first call
            ended_at text not null,         -- when the last response ended
            slug text not null,             -- of the call that ended last, as the client
            client text,
            peak_prompt_tokens integer not null,
            calls integer not null,
            errors integer not null,        -- neither complete nor ended by the client
            unpriced integer not null,      -- there is usage, but no known price
            input_tokens integer not null,
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cost_cents real not null,
            estimated_cents real not null,
            value_cents real not null       -- of calls that a subscription covers
        ) without rowid
        """,
        "create index sessions_ended_at on sessions (ended_at, session_id)",
        "insert into backfills select 'session sums', max(id) from usage having max(id) is not null",
    ):
        db.execute(statement)


@migrations()
def m012_sum_up_days(db: Database) -> None:
    """Add sums and histograms by day, and sums by session and agent. What is there is added later, as
    ``backfills`` has it."""
    keys = (
        "day text not null, proxy_endpoint_id text not null, slug text not null, model text not null,"
        " client text not null, credential_hmac text not null, billing text not null"
    )
    key = "day, proxy_endpoint_id, slug, model, client, credential_hmac, billing"
    for statement in (
        f"""
        create table usage_daily (
            {keys},                         -- as in usage_hourly
            entries integer not null,
            errors integer not null,
            unpriced integer not null,
            maybe_billed integer not null,
            timed integer not null,
            input_tokens integer not null,
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cache_write_1h_tokens integer not null,
            web_search_requests integer not null,
            unbilled_tokens integer not null,
            unpriced_tokens integer not null,
            cost_cents real not null,
            estimated_cents real not null,
            duration_ms real not null,
            primary key ({key})
        ) without rowid
        """,
        # Histograms as ``histograms`` packs them.
        f"""
        create table timings_daily (
            {keys},
            ttfb_ms blob not null,
            duration_ms blob not null,
            proxy_overhead_ms blob not null,
            output_tokens_per_s blob not null,
            primary key ({key})
        )
        """,
        """
        create table agents_daily (
            day text not null,
            session_id text not null,       -- '': none
            agent_id text not null,         -- '': the main one
            entries integer not null,
            errors integer not null,
            unpriced integer not null,
            maybe_billed integer not null,
            input_tokens integer not null,
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cost_cents real not null,
            estimated_cents real not null,
            value_cents real not null,      -- of calls that a subscription covers
            primary key (day, session_id, agent_id)
        ) without rowid
        """,
        "insert into backfills select 'daily sums',"
        " cast(replace(substr(max(hour), 1, 10), '-', '') as integer)"
        " from usage_hourly having max(hour) is not null",
        "insert into backfills select 'agent sums', max(id) from usage having max(id) is not null",
        "insert into backfills select 'timings', max(id) from usage having max(id) is not null",
    ):
        db.execute(statement)


@migrations()
def m013_keep_predecessors_and_cache_breaks(db: Database) -> None:
    """Add the predecessor of each call, the cache breaks, and the sessions of calls that name none.

    Earlier calls are judged later, oldest first, since a judgement depends on the calls before:
    ``backfills`` has the last of them, and up to which they are judged."""
    for statement in (
        """
        create table predecessors (
            usage_id integer primary key references usage(id),
            previous_id integer not null    -- may be gone: ids are never used again
        )
        """,
        """
        create table unnamed_calls (
            usage_id integer primary key references usage(id),
            first_id integer not null       -- of the session's first call, which may be gone
        )
        """,
        "create index unnamed_calls_first_id on unnamed_calls (first_id)",
        """
        create table cache_breaks (
            usage_id integer primary key references usage(id),
            previous_entry_id text not null,
            method integer not null,
            prefix_tokens integer not null,
            read_tokens integer not null,
            tokens integer not null,
            gap_ms integer not null,
            extra_cost_cents real,          -- null: a price is not known
            estimated integer not null,
            found_by text not null,
            cause text not null,
            detail text not null,
            upstream_reason text,
            upstream_tokens integer
        )
        """,
        "alter table sessions add column cache_breaks integer not null default 0",
        "insert into backfills select 'judged last', max(id) from usage having max(id) is not null",
        "insert into backfills select 'judged up to', 0 from backfills where name = 'judged last'",
    ):
        db.execute(statement)
    _add_to_view(
        db,
        {
            "previous_id": "(select w.previous_id from predecessors as w where w.usage_id = u.id)",
            "session": "coalesce(u.session_id, (select 'unnamed-' || n.first_id"
            " from unnamed_calls as n where n.usage_id = u.id))",
        },
    )


@migrations()
def m014_name_the_tools_that_failed(db: Database) -> None:
    """Add the names of tools of which a result in the new messages of a call is an error."""
    db.execute("alter table predecessors add column failed_tools text")  # with commas; null: none


@migrations()
def m015_index_what_was_said(db: Database) -> None:
    """Add the index for searching. The calls that are there are indexed later, newest first, as
    ``search_gaps`` has it."""
    for statement in search_index.TABLES:
        db.execute(statement)
    search_progress.begin_anew(db.conn)


@migrations()
def m016_keep_what_sessions_could_have_saved(db: Database) -> None:
    """Add the findings of savings by session and day, and the sessions that are to be looked at.

    All sessions are, newest first. There is a row for each of them, which is few beside their calls."""
    for statement in (
        """
        create table savings (
            session_id text not null,
            day text not null,              -- of the calls, UTC
            finding text not null,
            subject text not null,          -- '': none
            calls integer not null,
            tokens integer not null,
            cents real not null,            -- of tokens with a known price
            unpriced_tokens integer not null,
            top text not null,              -- JSON array of [usage id, cents], most expensive first
            primary key (session_id, day, finding, subject)
        ) without rowid
        """,
        # Has all that the sums of a period need.
        "create index savings_day on savings"
        " (day, finding, subject, session_id, calls, tokens, cents, unpriced_tokens)",
        """
        create table session_savings (
            session_id text primary key,
            method integer not null,        -- version of the rules
            computed_at text not null,
            calls integer not null,
            conversations integer not null,
            opened integer not null         -- conversations of which a body was read
        ) without rowid
        """,
        """
        create table savings_due (
            session_id text primary key,
            due_at real not null,           -- seconds since 1970
            changes integer not null        -- tells whether it changes while it is looked at
        ) without rowid
        """,
        "create index savings_due_due_at on savings_due (due_at)",
        "insert into savings_due select session_id, -julianday(ended_at), 1 from sessions"
        " where julianday(ended_at) is not null",
    ):
        db.execute(statement)


@migrations()
def m017_sum_up_savings_by_day(db: Database) -> None:
    """Add the sums of findings by day, and that of each session. All sessions are looked at again."""
    for statement in (
        """
        create table savings_daily (
            day text not null,
            finding text not null,
            subject text not null,
            calls integer not null,
            tokens integer not null,
            cents real not null,
            unpriced_tokens integer not null,
            largest_session text not null,  -- of the day, with its cents
            largest_cents real not null,
            primary key (day, finding, subject)
        ) without rowid
        """,
        f"{savings_daily.SUM} group by day, finding, subject",
        "drop index savings_day",
        "create index savings_day on savings (day, finding, subject)",
        "alter table session_savings add column cents real not null default 0",
        "alter table session_savings add column tokens integer not null default 0",
        "alter table session_savings add column last_day text",
        "create index session_savings_last_day on session_savings"
        " (last_day, cents, session_id, tokens)",
        "insert or ignore into savings_due select session_id, -julianday(ended_at), 1 from sessions"
        " where julianday(ended_at) is not null",
    ):
        db.execute(statement)


@migrations()
def m018_show_sums_of_days(db: Database) -> None:
    """Add a view of the sums of days that has all days, also while ``usage_daily`` is being filled."""
    _show_days(db)


@migrations()
def m019_note_what_retention_and_erasing_have_done(db: Database) -> None:
    """Add up to where the texts of each endpoint are removed, and the counts of erasures that go on."""
    for statement in (
        "create table retention_texts"
        " (proxy_endpoint_id text primary key, texts_before text not null) without rowid",
        "create table erasures (id text primary key, entries integer not null) without rowid",
    ):
        db.execute(statement)


@migrations()
def m020_count_calls_since_the_beginning(db: Database) -> None:
    """Add the counters of ``/metrics``. They begin at 0: what was recorded before is not in them."""
    for statement in (
        """
        create table call_counters (
            slug text not null,
            model text not null,            -- '': none was named
            outcome text not null,
            calls integer not null,
            input_tokens integer not null,
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cost_cents real not null,       -- as they were when they were recorded
            primary key (slug, model, outcome)
        ) without rowid
        """,
        """
        create table time_counters (
            slug text not null,
            measure text not null,          -- a column of usage
            up_to_s real not null,          -- upper bound of the bucket; infinity for the last one
            calls integer not null,
            seconds real not null,
            primary key (slug, measure, up_to_s)
        ) without rowid
        """,
    ):
        db.execute(statement)
