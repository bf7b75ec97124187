"""The schema of a trace database, as migrations. It has the calls of one organisation, by these rules.

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
from store.traces.search import index as search_index, progress as search_progress

migrations = Migrations("traces")

CALLS = (
    # The entries: one row for each call. AUTOINCREMENT: ids are in order of insertion and never used
    # again, which readers that remember an id rely on, and retention too (whatever is new has a higher id).
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
        response_body_length integer,
        body_notes text,                -- null: both bodies are whole, as far as there are any
        path_query text,
        api_version text,
        betas text,
        max_tokens integer,
        message_count integer,
        tool_count integer,
        run_id text,
        stop_reason text,
        refusal_category text,
        thinking_tokens integer,
        cache_write_1h_tokens integer,
        web_search_requests integer,
        output_tokens_per_s real,
        effort text,
        thinking_budget integer,
        cache_ttl text,
        title_text text,
        parent_agent_id text,
        request_class text,
        prompt_id text,
        client_hints text,
        billing text,
        overage integer,
        upstream_organization_id text,
        workspace_id text,
        estimated_cents real            -- the part of the cost that is estimated
    )
    """,
    # Calls are listed by arrival, also those of one endpoint, model, status or agent. An index ends with
    # the id, so calls of the same millisecond are in order too.
    "create index usage_created_at on usage (created_at)",
    "create index usage_proxy_endpoint on usage (proxy_endpoint_id, created_at)",
    "create index usage_model on usage (model, created_at)",
    "create index usage_status_code on usage (status_code, created_at)",
    # A session may hold several agents, whose calls take turns. The neighbours of a call are those of its
    # own agent. Calls without a session or a run pay nothing for these two.
    "create index usage_session on usage (session_id, agent_id, created_at)"
    " where session_id is not null",
    "create index usage_run on usage (run_id) where run_id is not null",
    # The rate limits that upstream stated with a call.
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
)

BODIES = (
    # The texts of requests, each stored once.
    """
    create table pieces (
        id integer primary key autoincrement,
        hash blob not null unique,      -- SHA-256, first 16 bytes
        text text not null
    )
    """,
    # Runs of pieces that requests have in common, such as the conversation so far.
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
)

COSTS = (
    # The line items that the cost of a call is the sum of. Rates and cents are REAL: the shortest decimal
    # of a double is the one that was stored as long as it has 15 digits or fewer, which prices have, and
    # SQL can then sum and compare.
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
        speed text,
        unbilled_reason text,
        note text,                      -- what makes it uncertain
        estimated integer not null default 0,
        primary key (usage_id, line)
    ) without rowid
    """,
    # What estimates of cut streams are made by: for each model, how many characters came in complete
    # responses and how many tokens they were, where older calls weigh less and less.
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
)

SUMS = (
    # Each pass of a call is booked to the model that ran it.
    """
    create table usage_hourly (
        hour text not null,             -- YYYY-MM-DDTHH, UTC
        proxy_endpoint_id text not null,
        slug text not null,
        model text not null,            -- of the pass; '': not known, as in the next three
        client text not null default '',
        credential_hmac text not null default '',
        billing text not null default '',
        entries integer not null,       -- calls, with the model of the call
        errors integer not null,        -- neither complete nor ended by the client
        unpriced integer not null,      -- there is usage, but no known price
        maybe_billed integer not null,
        timed integer not null,         -- entries that have a duration
        input_tokens integer not null,  -- tokens: those that are billed
        output_tokens integer not null,
        cache_creation_input_tokens integer not null,
        cache_read_input_tokens integer not null,
        cache_write_1h_tokens integer not null default 0,
        web_search_requests integer not null default 0,
        unbilled_tokens integer not null default 0,
        unpriced_tokens integer not null default 0,
        cost_cents real not null,
        estimated_cents real not null,
        duration_ms real not null,
        primary key (hour, proxy_endpoint_id, slug, model, client, credential_hmac, billing)
    ) without rowid
    """,
    # The same by day, for long periods.
    """
    create table usage_daily (
        day text not null,
        proxy_endpoint_id text not null,
        slug text not null,
        model text not null,
        client text not null,
        credential_hmac text not null,
        billing text not null,
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
        primary key (day, proxy_endpoint_id, slug, model, client, credential_hmac, billing)
    ) without rowid
    """,
    # The name by which queries read the sums of days.
    "create view usage_days as select * from usage_daily",
    # Histograms by day, as ``histograms`` packs them.
    """
    create table timings_daily (
        day text not null,
        proxy_endpoint_id text not null,
        slug text not null,
        model text not null,
        client text not null,
        credential_hmac text not null,
        billing text not null,
        ttfb_ms blob not null,
        duration_ms blob not null,
        proxy_overhead_ms blob not null,
        output_tokens_per_s blob not null,
        primary key (day, proxy_endpoint_id, slug, model, client, credential_hmac, billing)
    )
    """,
    # Sums by day, session and agent.
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
    # The requests that the proxy's own limit refused. One row per flush of the proxy, so that a flush read
    # again after a crash changes nothing.
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
    # The counters of ``/metrics``, which retention does not lower.
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
)

SESSIONS = (
    # The sums of each session.
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
        value_cents real not null,      -- of calls that a subscription covers
        cache_breaks integer not null default 0
    ) without rowid
    """,
    "create index sessions_ended_at on sessions (ended_at, session_id)",
    # The call that a call continues.
    """
    create table predecessors (
        usage_id integer primary key references usage(id),
        previous_id integer not null,   -- may be gone: ids are never used again
        failed_tools text               -- in new messages, with commas; null: none
    )
    """,
    # The sessions of calls that name none.
    """
    create table unnamed_calls (
        usage_id integer primary key references usage(id),
        first_id integer not null       -- of the session's first call, which may be gone
    )
    """,
    "create index unnamed_calls_first_id on unnamed_calls (first_id)",
    # The calls that paid again for what was in the prompt cache, and why.
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
)

SAVINGS = (
    # What sessions could have saved, by session and day.
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
    "create index savings_day on savings (day, finding, subject)",
    # The same, summed up over sessions.
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
    # The sessions that were looked at, with the sum of their findings.
    """
    create table session_savings (
        session_id text primary key,
        method integer not null,        -- version of the rules
        computed_at text not null,
        calls integer not null,
        conversations integer not null,
        opened integer not null,        -- conversations of which a body was read
        cents real not null default 0,
        tokens integer not null default 0,
        last_day text
    ) without rowid
    """,
    "create index session_savings_last_day on session_savings"
    " (last_day, cents, session_id, tokens)",
    # The sessions that are to be looked at.
    """
    create table savings_due (
        session_id text primary key,
        due_at real not null,           -- seconds since 1970
        changes integer not null        -- tells whether it changes while it is looked at
    ) without rowid
    """,
    "create index savings_due_due_at on savings_due (due_at)",
)

REMOVAL = (
    # Segments and pieces of removed entries that are perhaps unused: the work list of retention, stored
    # so that the next run continues after one that was killed.
    "create table loose_segments (id integer primary key)",
    "create table loose_pieces (id integer primary key)",
    # Up to where the texts of each endpoint are removed.
    "create table retention_texts"
    " (proxy_endpoint_id text primary key, texts_before text not null) without rowid",
    # How many calls the erasures that go on have removed.
    "create table erasures (id text primary key, entries integer not null) without rowid",
)

# Scalar sub-queries rather than joins: SQLite drops those of columns nobody selects. The order of the
# pieces is that of the ordered sub-query. `order by` inside group_concat needs SQLite 3.44; until then a
# test over thousands of pieces holds this down.
USAGE_LOG = """
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
        u.max_tokens, u.message_count, u.tool_count, u.run_id,
        u.stop_reason, u.refusal_category, u.thinking_tokens, u.cache_write_1h_tokens,
        u.web_search_requests, u.output_tokens_per_s, u.effort, u.thinking_budget, u.cache_ttl,
        u.title_text, u.parent_agent_id, u.request_class, u.prompt_id, u.client_hints,
        u.billing, u.overage, u.upstream_organization_id, u.workspace_id,
        u.estimated_cents,
        (select w.previous_id from predecessors as w where w.usage_id = u.id) as previous_id,
        coalesce(
            u.session_id,
            (select 'unnamed-' || n.first_id from unnamed_calls as n where n.usage_id = u.id)
        ) as session
    from usage as u
"""


def add_to_usage(db: Database, columns: Mapping[str, str]) -> None:
    """Add columns, given by name and type, to ``usage`` and at the end of the view ``usage_log``."""
    for name, kind in columns.items():
        db.execute(f"alter table usage add column {name} {kind}")
    (view,) = db.execute("select sql from sqlite_schema where name = 'usage_log'").fetchone()
    select, end, rest = view.rpartition("from usage as u")
    added = ", ".join(f"u.{name}" for name in columns)
    db.execute("drop view usage_log")
    db.execute(f"{select.rstrip()}, {added} {end}{rest}")


def add_token_class(db: Database, name: str) -> None:
    """Add a class of tokens, as a column, to every table that counts tokens by class.

    Those are the tables with a column ``output_tokens``. Null is allowed where it is allowed for that
    one."""
    tables = db.execute(
        'select t.name, c."notnull" from sqlite_schema as t, pragma_table_info(t.name) as c'
        " where t.type = 'table' and c.name = 'output_tokens'"
    ).fetchall()
    for table, is_required in tables:
        if table == "usage":
            add_to_usage(db, {name: "integer"})
        else:
            kind = "integer not null default 0" if is_required else "integer"
            db.execute(f"alter table {table} add column {name} {kind}")


@migrations()
def m001_calls_of_an_organization(db: Database) -> None:
    """Create the schema of 0.1.0."""
    for part in (CALLS, BODIES, COSTS, SUMS, SESSIONS, SAVINGS, search_index.TABLES, REMOVAL):
        for statement in part:
            db.execute(statement)
    db.execute(USAGE_LOG)
    search_progress.begin_anew(db.conn)


@migrations()
def m002_threads_products_and_upstream_objects(db: Database) -> None:
    """Add message threads, products, containers, and managed sessions and dreams.

    A client that uses message threads sends only the new part of a conversation, and names the message
    that it continues: ``message_id`` of another call, which may be stored later. ``thread`` is NULL for
    calls without one; nothing is known of calls before this migration. ``product`` is the interface
    that a call was made by; all calls until now were messages. The hours of a container, in which code
    of a call has run, are billed and in no count.

    A managed session or a dream reports its total usage each time that it is read. So it is one row,
    which the next reading replaces, and never an entry."""
    add_to_usage(
        db,
        {
            "message_id": "text",
            "thread": "text",
            "thread_previous_id": "text",
            "user_profile_id": "text",
            "product": "text not null default 'messages'",
            "container_id": "text",
        },
    )
    for name in ("message_id", "thread_previous_id"):
        db.execute(f"create index usage_{name} on usage ({name}) where {name} is not null")
    db.execute(
        "create index usage_product on usage (product, created_at) where product <> 'messages'"
    )
    db.execute("""
        create table upstream_objects (
            object_id text primary key,     -- of the upstream
            kind text not null,             -- session, dream
            proxy_endpoint_id text not null,
            slug text not null,
            credential_hmac text,
            created_at text,                -- by the upstream's clock, as the next one
            ended_at text,                  -- null: it goes on, or does not say
            read_at text not null,          -- when these counts came
            status text,
            model text,                     -- null: several, or not known
            speed text,
            session_id text,                -- of a dream: the managed session that it runs in
            input_tokens integer,
            output_tokens integer,
            cache_creation_input_tokens integer,
            cache_read_input_tokens integer,
            cache_write_1h_tokens integer,
            web_search_requests integer,
            active_seconds real,            -- in which it ran, which are billed
            cost_cents real,                -- null: not known, never a guess
            list_cost_cents real            -- as the upstream states it
        ) without rowid
    """)
    db.execute("create index upstream_objects_read_at on upstream_objects (read_at)")


@migrations()
def m003_free_containers(db: Database) -> None:
    """Mark calls whose containers are free of charge, because the request had newer web tools."""
    add_to_usage(db, {"free_containers": "integer"})


@migrations()
def m004_what_was_done(db: Database) -> None:
    """Add the uses of tools in responses, and the first words of responses.

    The result of a use is in the next call of the conversation, so a row is completed when that call is
    recorded. Calls from before this migration have no rows, and no words."""
    add_to_usage(db, {"said_text": "text"})
    db.execute("""
        create table tool_uses (
            usage_id integer not null references usage(id),
            place integer not null,         -- among the uses of the response, from 0
            tool text,                      -- null: not known
            server text,                    -- null: the tool of no MCP server
            target text,                    -- file, command, pattern, …
            problem text,                   -- null: it went well, or is not known yet
            result_tokens integer,          -- estimated; null: there is no result
            plus integer,                   -- lines added to files; null: not known, as the next
            minus integer,
            primary key (usage_id, place)
        ) without rowid
    """)
    db.execute("create index tool_uses_tool on tool_uses (tool, usage_id)")
    for name, kind in (
        ("prompts", "integer not null default 0"),
        ("failed_tools", "integer not null default 0"),
        ("credential_hmac", "text"),
    ):
        db.execute(f"alter table sessions add column {name} {kind}")


@migrations()
def m005_unnamed_containers(db: Database) -> None:
    """Mark calls that ran code and were cut off before they named the container."""
    add_to_usage(db, {"container_unnamed": "integer"})


@migrations()
def m006_windows_of_subscriptions(db: Database) -> None:
    """Add more windows of subscriptions, and a table of their recently stated shares.

    This is a table of its own, because the windows of an account are read on each visit of the home
    page, and ``rate_limits`` has a row for each call. A share has two decimals, so that the rows of a
    window are few. ``resets_at`` is empty if it was not stated."""
    for name, kind in (
        ("unified_7d_oi_status", "text"),
        ("unified_7d_oi_utilization", "real"),
        ("unified_7d_oi_reset_at", "text"),
        ("overage_reset_at", "text"),
        ("account", "text"),
    ):
        db.execute(f"alter table rate_limits add column {name} {kind}")
    db.execute("""
        create table limit_readings (
            account text not null,
            window text not null,           -- 5h, 7d, 7d_oi, ...
            resets_at text not null,
            used real not null,
            status text,
            first_read_at text not null,
            last_read_at text not null,
            primary key (account, window, resets_at, used)
        ) without rowid
    """)
    db.execute("create index limit_readings_last_read_at on limit_readings (last_read_at)")


@migrations()
def m007_attribution(db: Database) -> None:
    """Add the user, project and tags of a call, as its client names them in headers.

    ``tags`` has all of them by name and value: ``user`` and ``project``, a tag ``key:value`` by its
    key, and one without a key by itself, with the value ''. Calls without any take no space in table
    and indexes. A call with several tags is in several rows of ``tags_hourly``, so its rows do not add
    up to a total, except those of one name."""
    add_to_usage(
        db,
        {
            "attributed_user": "text",
            "project": "text",
            "tags": "text",
            "attributes_left_out": "integer",
        },
    )
    for name in ("attributed_user", "project"):
        db.execute(
            f"create index usage_{name} on usage ({name}, created_at) where {name} is not null"
        )
    db.execute("""
        create table tags (
            usage_id integer not null references usage(id),
            name text not null,
            value text not null,            -- '': a tag without a key
            primary key (usage_id, name, value)
        ) without rowid
    """)
    db.execute("create index tags_name on tags (name, value, usage_id)")
    db.execute("""
        create table tags_hourly (
            hour text not null,             -- YYYY-MM-DDTHH, UTC
            name text not null,
            value text not null,
            entries integer not null,
            errors integer not null,
            unpriced integer not null,
            maybe_billed integer not null,
            input_tokens integer not null,  -- tokens: those that are billed
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            unbilled_tokens integer not null,
            unpriced_tokens integer not null,
            cost_cents real not null,
            estimated_cents real not null,
            value_cents real not null,      -- of calls that a subscription covers
            primary key (hour, name, value)
        ) without rowid
    """)
    db.execute("create index tags_hourly_name on tags_hourly (name, hour)")
    db.execute(
        "alter table call_counters add column attributes_left_out integer not null default 0"
    )


@migrations()
def m008_changed_by_upstream(db: Database) -> None:
    """Record which changes upstream made to the request before the model got it."""
    add_to_usage(db, {"changed_by_upstream": "text"})


@migrations()
def m009_labels_and_notes(db: Database) -> None:
    """Add labels of sessions and calls, and a note about each.

    Each row is about a session or about a call. If there are several copies of the calls,
    ``annotations_done`` has the orders that this copy has carried out."""
    for name, content in (("labels", "label"), ("notes", "text")):
        db.execute(f"""
            create table {name} (
                id integer primary key,
                session_id text,
                usage_id integer references usage(id),
                {content} text not null,
                by text,                        -- an address; null: the operator
                at text not null,
                check ((session_id is null) <> (usage_id is null))
            )
        """)
    db.execute("create unique index labels_session on labels (session_id, label)")
    db.execute("create unique index labels_call on labels (usage_id, label)")
    db.execute("create index labels_label on labels (label)")
    db.execute("create unique index notes_session on notes (session_id)")
    db.execute("create unique index notes_call on notes (usage_id)")
    db.execute("create table annotations_done (order_id text primary key) without rowid")


@migrations()
def m010_tools_by_day(db: Database) -> None:
    """Add sums by day of the uses and costs of tools.

    Definitions and results cost tokens in each call that has them in its prompt, so the cost is
    computed from a whole session. The sums of sessions are stored, and those of days are computed from
    them."""
    keys = """
            day text not null,              -- of the calls, UTC
            {session}
            slug text not null,
            credential text not null,       -- '': none
            server text not null,           -- '': the tool of no MCP server
            tool text not null,             -- '': not known
    """
    sums = """
            uses integer not null,
            failed integer not null,
            result_tokens integer not null,
            {definition}
            written_cents real not null,    -- by the calls that had the results first
            carried_cents real not null,    -- by the later calls of their conversations
    """
    session, definition = "session_id text not null,", "definition_cents real not null,"
    target = "target text not null,           -- '(other)': all others of the day"
    of_tool = keys.format(session="")
    of_session = keys.format(session=session)
    cents, results = sums.format(definition=definition), sums.format(definition="")
    for table, columns, key in (
        ("session_tools", of_session + cents, "day, session_id, slug, credential, server, tool"),
        (
            "session_tool_targets",
            f"{of_session}{target}\n{results}",
            "day, session_id, slug, credential, server, tool, target",
        ),
        ("tools_daily", of_tool + cents, "day, slug, credential, server, tool"),
        (
            "tool_targets_daily",
            f"{of_tool}{target}\n            sessions integer not null,\n{results}",
            "day, slug, credential, server, tool, target",
        ),
    ):
        db.execute(f"create table {table} ({columns} primary key ({key})) without rowid")


@migrations()
def m011_upstreams(db: Database) -> None:
    """Record the upstream of calls of endpoints that have one of their own: its prices may differ."""
    add_to_usage(db, {"upstream": "text"})
    db.execute("alter table upstream_objects add column upstream text")


@migrations()
def m012_limits_that_calls_were_refused_for(db: Database) -> None:
    """Record the limit that a call was refused for: a used-up window, a limit per minute, or neither.

    For earlier calls it is derived from the limits that their responses stated."""
    add_to_usage(db, {"limited_by": "text"})
    unified = (
        "coalesce(r.unified_status, r.unified_claim, r.unified_5h_utilization,"
        " r.unified_7d_utilization, r.unified_7d_oi_utilization) is not null"
    )
    per_minute = (
        "coalesce(r.requests_limit, r.tokens_limit, r.input_tokens_limit, r.output_tokens_limit)"
        " is not null"
    )
    db.execute(
        f"update usage set limited_by = coalesce((select iif({unified}, 'window',"  # noqa: S608
        f" iif({per_minute}, 'minute', null)) from rate_limits as r where r.usage_id = usage.id),"
        " 'throttle') where status_code = 429"
    )


@migrations()
def m013_accounts_of_credentials(db: Database) -> None:
    """Record which credentials belong to one account, whose token is renewed every few hours."""
    db.execute("""create table credential_accounts (
        fingerprint text primary key,       -- of a credential: credential_hmac of calls
        account text not null,              -- as in rate_limits and limit_readings
        first_at text not null,
        last_at text not null) without rowid""")
    db.execute("create index credential_accounts_account on credential_accounts (account)")
    db.execute("""insert into credential_accounts (fingerprint, account, first_at, last_at)
        select u.credential_hmac, r.account, min(u.created_at), max(u.created_at)
        from rate_limits as r join usage as u on u.id = r.usage_id
        where r.account is not null and u.credential_hmac is not null group by 1""")


@migrations()
def m014_times_by_group(db: Database) -> None:
    """Add histograms of whole days, added up by group, so that a page of months reads few rows."""
    db.execute("""create table timings_by_group (
        name text not null,             -- the column that has the value; '': all calls
        day text not null,
        value text not null,
        ttfb_ms blob not null,
        duration_ms blob not null,
        proxy_overhead_ms blob not null,
        output_tokens_per_s blob not null,
        primary key (name, day, value))""")


@migrations()
def m015_sizes_of_results(db: Database) -> None:
    """Add histograms of the sizes of tool results, for their medians.

    Sessions that were analysed before have none until they are analysed again."""
    db.execute("alter table session_tools add column result_sizes blob not null default x''")
    db.execute("""create table tool_sizes_daily (
        day text not null,              -- of the calls, UTC
        slug text not null,
        credential text not null,
        server text not null,
        tool text not null,
        result_sizes blob not null,     -- estimated tokens of each result, as ``histograms`` packs them
        primary key (day, slug, credential, server, tool))""")


@migrations()
def m016_expensive_calls(db: Database) -> None:
    """Add an index of the few expensive calls, to find them without reading all of a period."""
    db.execute("create index usage_expensive on usage (created_at) where cost_cents >= 10.0")
