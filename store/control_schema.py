"""The schema of ``control.db``, told in migrations: who may do what, and which slugs exist.

A change is a new function at the bottom; what has been released is never edited.
"""

from sqlite_utils import Database, Migrations

control_migrations = Migrations("taximeter-control")


@control_migrations()
def m001_initial(db: Database) -> None:
    """Organisations, people and proxy endpoints.

    A deleted endpoint keeps its row: its slug stays reserved for its organisation, because whoever
    got it next would receive the traffic of clients that still use it.
    """
    for statement in (
        """create table organizations (
            id text primary key, name text not null, created_at text not null)""",
        """create table users (
            id text primary key, email text unique, created_at text not null)""",
        """create table memberships (
            organization_id text not null references organizations(id),
            user_id text not null references users(id),
            role text not null check (role in ('owner', 'member')),
            created_at text not null,
            primary key (organization_id, user_id))""",
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
        "create index proxy_endpoints_newest on proxy_endpoints(organization_id, created_at, id)",
        # Keys of our own making, such as the one that fingerprints upstream credentials.
        "create table secrets (name text primary key, value blob not null)",
    ):
        db.execute(statement)


@control_migrations()
def m002_sign_in(db: Database) -> None:
    """Links that sign a person in once, and the sessions that come of them.

    Only SHA-256 hashes are kept: who reads this file cannot sign in with what it holds.
    """
    for statement in (
        """create table sign_in_links (
            token_sha256 blob primary key,
            user_id text not null references users(id),
            expires_at text not null,
            used_at text)""",
        """create table sessions (
            token_sha256 blob primary key,
            user_id text not null references users(id),
            created_at text not null,
            seen_at text not null)""",
        "create index sessions_user on sessions(user_id)",
    ):
        db.execute(statement)
