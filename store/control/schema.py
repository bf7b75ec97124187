"""The schema of ``control.db``, as migrations: permissions, settings of people, and slugs.

The database is small, and shared by all processes. A change is a new function at the bottom, never
an edit of one that was released."""

from store.migrations import Database, Migrations

migrations = Migrations("control")

PEOPLE = (
    """create table organizations (
        id text primary key,
        name text not null,
        created_at text not null,
        time_zone text not null default 'UTC')""",
    """create table users (
        id text primary key,
        email text unique,                  -- null: the operator at the command line
        created_at text not null)""",
    """create table memberships (
        organization_id text not null references organizations(id),
        user_id text not null references users(id),
        role text not null check (role in ('owner', 'member')),
        created_at text not null,
        primary key (organization_id, user_id))""",
    "create index memberships_user on memberships(user_id)",
    # An invitation is gone once it is accepted or declined. Who invited is an address and not a user: it
    # outlives the user.
    """create table invitations (
        id text primary key,
        organization_id text not null references organizations(id),
        email text not null,
        invited_by text,
        created_at text not null,
        expires_at text not null,
        unique (organization_id, email))""",
    "create index invitations_email on invitations(email)",
)

# Of tokens and keys only the SHA-256 is kept: who reads this file cannot sign in with what it holds.
SIGN_IN = (
    # A link signs in once: a user, or the user who has the address when it is used. It may carry an
    # invitation, and where to go.
    """create table sign_in_links (
        token_sha256 blob primary key,
        user_id text references users(id),
        email text,
        invitation_id text,
        next_path text not null,
        expires_at text not null,
        used_at text,
        check ((user_id is null) <> (email is null)))""",
    """create table sessions (
        token_sha256 blob primary key,
        user_id text not null references users(id),
        created_at text not null,
        seen_at text not null,
        organization_id text references organizations(id))  -- null: the one joined first""",
    "create index sessions_user on sessions(user_id)",
    # The service API keys.
    """create table api_keys (
        id text primary key,
        user_id text not null references users(id),
        organization_id text not null references organizations(id),
        name text not null,
        key_sha256 blob not null unique,
        key_prefix text not null,
        created_at text not null,
        last_used_at text)""",
    "create index api_keys_newest on api_keys(user_id, organization_id, created_at, id)",
    # Keys that this program generates, such as the one that fingerprints upstream credentials.
    "create table secrets (name text primary key, value blob not null)",
)

# A deleted endpoint keeps its row: its slug stays reserved for its organisation, because another
# organisation with this slug would receive the traffic of clients that still use it.
ENDPOINTS = (
    """create table proxy_endpoints (
        id text primary key,
        organization_id text not null references organizations(id),
        name text not null,
        slug text not null,
        streaming text check (streaming in ('live', 'buffered')),
        metadata_only integer not null default 0,
        created_at text not null,
        deleted_at text)""",
    "create unique index proxy_endpoints_live_slug on proxy_endpoints(slug) where deleted_at is null",
    "create index proxy_endpoints_slug on proxy_endpoints(slug)",
    # For lists, which would otherwise read past every endpoint that was ever deleted.
    """create index proxy_endpoints_live_newest
        on proxy_endpoints(organization_id, created_at, id) where deleted_at is null""",
    # For counting the slugs of an organisation, those of deleted endpoints included.
    "create index proxy_endpoints_organization on proxy_endpoints(organization_id, slug)",
)

ACTIVITY = (
    # The activity log. It has no foreign keys: it outlives what it tells of.
    """create table audit_log (
        id integer primary key autoincrement,
        at text not null,
        organization_id text not null,
        user_id text,                       -- null: the operator at the command line
        email text,
        action text not null,
        subject_id text not null,
        details text not null)""",
    "create index audit_log_newest on audit_log(organization_id, id)",
)

BUDGETS = (
    # A budget without an endpoint is that of the whole organisation, whose days are those of its time zone.
    """create table budgets (
        id text primary key,
        organization_id text not null references organizations(id),
        proxy_endpoint_id text references proxy_endpoints(id),
        period text not null check (period in ('day', 'month')),
        limit_usd real not null check (limit_usd > 0),
        action text not null check (action in ('warn', 'refuse')),
        created_at text not null)""",
    """create unique index budgets_subject
        on budgets(organization_id, coalesce(proxy_endpoint_id, ''))""",
    "create index budgets_newest on budgets(organization_id, created_at, id)",
    # The webhook that budgets are reported to. Its secret is kept as it is, because it signs.
    """create table budget_webhooks (
        organization_id text primary key references organizations(id),
        url text not null,
        secret blob not null,
        created_at text not null)""",
    # An alert is made once for each limit and period; what is delivered of it has rows of its own.
    """create table budget_alerts (
        id text primary key,
        organization_id text not null references organizations(id),
        proxy_endpoint_id text,
        slug text,
        period text not null,
        starts_at text not null,
        resets_at text not null,
        limit_usd real not null,
        spent_usd real not null,
        percent integer not null,
        action text not null,
        created_at text not null)""",
    """create unique index budget_alerts_once on budget_alerts(
        organization_id, coalesce(proxy_endpoint_id, ''), period, starts_at, limit_usd, percent)""",
    "create index budget_alerts_newest on budget_alerts(organization_id, created_at)",
    """create table budget_deliveries (
        id text primary key,
        alert_id text not null references budget_alerts(id) on delete cascade,
        channel text not null check (channel in ('mail', 'webhook')),
        target text not null,
        attempts integer not null default 0,
        due_at text,                        -- null: it has ended
        delivered_at text,
        error text)""",
    "create index budget_deliveries_due on budget_deliveries(due_at) where due_at is not null",
    "create index budget_deliveries_alert on budget_deliveries(alert_id)",
)

REMOVAL = (
    # The rules of retention, and the last and next run of each organisation.
    """create table retention_rules (
        organization_id text not null references organizations(id),
        proxy_endpoint_id text not null,    -- '': of the organisation
        text_days integer,
        entry_days integer,
        max_bytes integer,
        primary key (organization_id, proxy_endpoint_id)) without rowid""",
    """create table retention_runs (
        organization_id text primary key references organizations(id),
        next_at text not null,
        ended_at text,                      -- of the last run; null: there was none
        entries integer not null default 0,
        texts integer not null default 0,
        bytes_freed integer not null default 0) without rowid""",
    # The orders to erase calls.
    """create table erasures (
        id text primary key,
        organization_id text not null references organizations(id),
        ordered_at text not null,
        user_id text,                       -- null: the operator at the command line
        criteria text,                      -- JSON; null once it has ended
        entries integer not null default 0,
        set_aside integer not null default 0,
        erased_at text,
        ended_at text)""",
    "create index erasures_open on erasures(id) where ended_at is null",
    # Their states on each node that keeps calls. Nodes are not in this database, so there is no foreign key
    # for them.
    """create table erasure_copies (
        erasure_id text not null,
        node text not null,
        copy text not null,                 -- '': of a proxy node, which ships calls
        entries integer not null default 0,
        set_aside integer not null default 0,
        erased_at text,
        shipped text,                       -- all that was shipped by then has arrived
        settled_at text,
        is_logged integer not null default 0,
        primary key (erasure_id, node, copy)) without rowid""",
)


@migrations()
def m001_who_may_do_what(db: Database) -> None:
    """Create the schema of 0.1.0."""
    for part in (PEOPLE, SIGN_IN, ENDPOINTS, ACTIVITY, BUDGETS, REMOVAL):
        for statement in part:
            db.execute(statement)


@migrations()
def m002_names_of_credentials(db: Database) -> None:
    """Add names of credentials and subscriptions, by their fingerprints."""
    db.execute("""create table credential_names (
        organization_id text not null references organizations(id),
        fingerprint text not null,          -- of a credential, or of the account of a subscription
        name text not null,
        created_at text not null,
        primary key (organization_id, fingerprint)) without rowid""")


@migrations()
def m003_orders_of_labels_and_notes(db: Database) -> None:
    """Add orders of labels and notes, which the recorder carries out. An order without label is about the
    note."""
    db.execute("""create table annotation_orders (
        id text primary key,
        organization_id text not null references organizations(id),
        kind text not null check (kind in ('session', 'call')),
        subject text not null,              -- the id of a session, or of the entry of a call
        label text,
        text text,
        is_removal integer not null,
        by text,                            -- an address; null: the operator
        ordered_at text not null)""")
    db.execute("create index annotation_orders_of on annotation_orders (organization_id, id)")


@migrations()
def m004_alerts(db: Database) -> None:
    """Add rules for alerts, and the alerts they made: at most one for each occasion."""
    db.execute("""create table alert_rules (
        id text primary key,
        organization_id text not null references organizations(id),
        kind text not null check (kind in ('session_cost', 'errors', 'window', 'day_cost')),
        threshold real not null check (threshold > 0),
        channel text not null check (channel in ('mail', 'webhook')),
        format text not null check (format in ('plain', 'slack', 'teams')),
        url text,                           -- null: the webhook of the organisation
        created_at text not null)""")
    db.execute("create index alert_rules_of on alert_rules (organization_id, id)")
    db.execute("""create table alerts (
        id text primary key,
        organization_id text not null,
        rule_id text not null references alert_rules(id) on delete cascade,
        occasion text not null,             -- a session, an hour, a window, a day
        kind text not null,
        subject text not null,
        sentence text not null,
        link text not null,
        at text not null,
        unique (rule_id, occasion))""")
    db.execute("create index alerts_newest on alerts (organization_id, at)")


@migrations()
def m005_upstreams_of_endpoints(db: Database) -> None:
    """Allow endpoints an upstream of their own, one that the operator has configured."""
    db.execute("alter table proxy_endpoints add column upstream text")  # null: that of the service


@migrations()
def m006_weeks_shares_and_parts_of_budgets(db: Database) -> None:
    """Allow budgets by week, with shares to warn at, and for the calls of one user, project or tag."""
    db.execute("""create table new_budgets (
        id text primary key,
        organization_id text not null references organizations(id),
        proxy_endpoint_id text references proxy_endpoints(id),
        period text not null check (period in ('day', 'week', 'month')),
        limit_usd real not null check (limit_usd > 0),
        action text not null check (action in ('warn', 'refuse')),
        warn_at text,                       -- with commas between them; null: as all budgets do
        of_kind text check (of_kind in ('user', 'project', 'tag')),
        of_value text,                      -- null, with of_kind: of all calls
        created_at text not null,
        check ((of_kind is null) = (of_value is null)),
        check (of_kind is null or action = 'warn'))""")
    columns = "id, organization_id, proxy_endpoint_id, period, limit_usd, action, created_at"
    db.execute(f"insert into new_budgets ({columns}) select {columns} from budgets")  # noqa: S608
    db.execute("drop table budgets")
    db.execute("alter table new_budgets rename to budgets")
    db.execute("""create unique index budgets_subject on budgets(
        organization_id, coalesce(proxy_endpoint_id, ''), coalesce(of_kind, ''), coalesce(of_value, ''))""")
    db.execute("create index budgets_newest on budgets(organization_id, created_at, id)")
    db.execute("alter table budget_alerts add column of_kind text")
    db.execute("alter table budget_alerts add column of_value text")
    db.execute("drop index budget_alerts_once")
    db.execute("""create unique index budget_alerts_once on budget_alerts(
        organization_id, coalesce(proxy_endpoint_id, ''), coalesce(of_kind, ''), coalesce(of_value, ''),
        period, starts_at, limit_usd, percent)""")


@migrations()
def m007_attributes_of_runs(db: Database) -> None:
    """Add the attributes (user, project, tags) of runs, which base URLs name."""
    db.execute("""create table run_attributes (
        organization_id text not null references organizations(id),
        run_id text not null,
        attributed_user text,
        project text,
        tags text,                          -- a JSON list; null: none
        created_at text not null,
        primary key (organization_id, run_id)) without rowid""")
    db.execute("create index run_attributes_newest on run_attributes(organization_id, created_at)")


@migrations()
def m008_deliveries_of_alerts(db: Database) -> None:
    """Add deliveries of the alerts of rules, and the message format of each channel."""
    db.execute("""create table alert_deliveries (
        id text primary key,
        alert_id text not null references alerts(id) on delete cascade,
        channel text not null check (channel in ('mail', 'webhook')),
        target text not null,
        attempts integer not null default 0,
        due_at text,                        -- null: it has ended
        delivered_at text,
        error text)""")
    db.execute(
        "create index alert_deliveries_due on alert_deliveries(due_at) where due_at is not null"
    )
    db.execute("create index alert_deliveries_alert on alert_deliveries(alert_id)")
    db.execute("alter table alerts add column is_test integer not null default 0")
    db.execute("""alter table budget_webhooks add column format text not null default 'plain'
        check (format in ('plain', 'slack', 'teams'))""")


@migrations()
def m009_names_of_agents(db: Database) -> None:
    """Allow names of agents, by their ids, beside those of credentials."""
    db.execute("""alter table credential_names add column kind text not null default 'credential'
        check (kind in ('credential', 'agent'))""")
