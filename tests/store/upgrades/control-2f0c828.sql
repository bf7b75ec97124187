pragma auto_vacuum = incremental;
pragma journal_mode = wal;
pragma foreign_keys = off;
begin;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
insert into "_sqlite_migrations" values (1, 'control', 'm001_organizations_and_endpoints', '2026-11-23 06:50:35.744398+00:00');
insert into "_sqlite_migrations" values (2, 'control', 'm002_sign_in', '2026-11-23 06:50:35.744677+00:00');
insert into "_sqlite_migrations" values (3, 'control', 'm003_keys_and_audit_log', '2026-11-23 06:50:35.745085+00:00');
insert into "_sqlite_migrations" values (4, 'control', 'm004_sign_in_by_address_and_invitations', '2026-11-23 06:50:35.745562+00:00');
insert into "_sqlite_migrations" values (5, 'control', 'm005_index_of_all_endpoints', '2026-11-23 06:50:35.745708+00:00');
insert into "_sqlite_migrations" values (6, 'control', 'm006_budgets', '2026-11-23 06:50:35.746351+00:00');
insert into "_sqlite_migrations" values (7, 'control', 'm007_retention_and_erasures', '2026-11-23 06:50:35.746644+00:00');
insert into "_sqlite_migrations" values (8, 'control', 'm008_erasures_of_copies', '2026-11-23 06:50:35.747956+00:00');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE TABLE organizations (
            id text primary key, name text not null, created_at text not null, time_zone text not null default 'UTC');
insert into "organizations" values ('01a2072b-b968-73df-8b98-3d42293cfe35', 'Local', '2026-11-23T06:50:35.752Z', 'UTC');
CREATE TABLE users (
            id text primary key, email text unique, created_at text not null);
insert into "users" values ('01a2072b-b968-7644-9f7f-789e7c4aa946', NULL, '2026-11-23T06:50:35.752Z');
CREATE TABLE memberships (
            organization_id text not null references organizations(id),
            user_id text not null references users(id),
            role text not null check (role in ('owner', 'member')),
            created_at text not null,
            primary key (organization_id, user_id));
insert into "memberships" values ('01a2072b-b968-73df-8b98-3d42293cfe35', '01a2072b-b968-7644-9f7f-789e7c4aa946', 'owner', '2026-11-23T06:50:35.752Z');
CREATE TABLE proxy_endpoints (
            id text primary key,
            organization_id text not null references organizations(id),
            name text not null,
            slug text not null,
            streaming text check (streaming in ('live', 'buffered')),
            metadata_only integer not null default 0,
            created_at text not null,
            deleted_at text);
insert into "proxy_endpoints" values ('01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', '01a2072b-b968-73df-8b98-3d42293cfe35', 'default', 'default', NULL, 0, '2026-11-23T06:50:35.752Z', NULL);
CREATE UNIQUE INDEX proxy_endpoints_live_slug on proxy_endpoints(slug) where deleted_at is null;
CREATE INDEX proxy_endpoints_slug on proxy_endpoints(slug);
CREATE TABLE secrets (name text primary key, value blob not null);
insert into "secrets" values ('credential fingerprint', X'FA852FA167FBE9EDD41D932E6D2F951C2259257A2CDF4F6576C6C2B1AAD360C0');
CREATE TABLE sessions (
            token_sha256 blob primary key,
            user_id text not null references users(id),
            created_at text not null,
            seen_at text not null, organization_id text references organizations(id));
insert into "sessions" values (X'0102', '01a2072b-b968-7644-9f7f-789e7c4aa946', '2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00.000Z', '01a2072b-b968-73df-8b98-3d42293cfe35');
CREATE INDEX sessions_user on sessions(user_id);
CREATE TABLE api_keys (
            id text primary key,
            user_id text not null references users(id),
            organization_id text not null references organizations(id),
            name text not null,
            key_sha256 blob not null unique,
            key_prefix text not null,
            created_at text not null,
            last_used_at text);
insert into "api_keys" values ('some id', '01a2072b-b968-7644-9f7f-789e7c4aa946', '01a2072b-b968-73df-8b98-3d42293cfe35', 'some name', X'0102', 'some key prefix', '2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00.000Z');
CREATE INDEX api_keys_newest on api_keys(user_id, organization_id, created_at, id);
CREATE INDEX memberships_user on memberships(user_id);
CREATE INDEX proxy_endpoints_live_newest
            on proxy_endpoints(organization_id, created_at, id) where deleted_at is null;
CREATE TABLE audit_log (
            id integer primary key autoincrement,
            at text not null,
            organization_id text not null,
            user_id text,                   -- null: the operator at the command line
            email text,
            action text not null,
            subject_id text not null,
            details text not null);
insert into "audit_log" values (1, '2026-11-23T06:50:35.753Z', '01a2072b-b968-73df-8b98-3d42293cfe35', NULL, NULL, 'user.link', '01a2072b-b968-7644-9f7f-789e7c4aa946', '{"email": null, "operator": "root"}');
CREATE INDEX audit_log_newest on audit_log(organization_id, id);
CREATE TABLE sign_in_links (
            token_sha256 blob primary key,
            user_id text references users(id),
            email text,
            invitation_id text,
            next_path text not null,
            expires_at text not null,
            used_at text,
            check ((user_id is null) <> (email is null)));
insert into "sign_in_links" values (X'1BE1EC8BBB8D532CD9B653C2FE0D1DE1CB558DCABB97FCA6A3C9618AA3CA0792', '01a2072b-b968-7644-9f7f-789e7c4aa946', NULL, NULL, '/', '2026-11-23T07:05:35.753Z', NULL);
CREATE TABLE invitations (
            id text primary key,
            organization_id text not null references organizations(id),
            email text not null,
            invited_by text,
            created_at text not null,
            expires_at text not null,
            unique (organization_id, email));
insert into "invitations" values ('some id', '01a2072b-b968-73df-8b98-3d42293cfe35', 'ann@example.org', 'some invited by', '2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00.000Z');
CREATE INDEX invitations_email on invitations(email);
CREATE INDEX proxy_endpoints_organization on proxy_endpoints(organization_id, slug);
CREATE TABLE budgets (
            id text primary key,
            organization_id text not null references organizations(id),
            proxy_endpoint_id text references proxy_endpoints(id),
            period text not null check (period in ('day', 'month')),
            limit_usd real not null check (limit_usd > 0),
            action text not null check (action in ('warn', 'refuse')),
            created_at text not null);
insert into "budgets" values ('some id', '01a2072b-b968-73df-8b98-3d42293cfe35', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'day', 0.5, 'warn', '2026-11-20T12:00:00.000Z');
CREATE UNIQUE INDEX budgets_subject
            on budgets(organization_id, coalesce(proxy_endpoint_id, ''));
CREATE INDEX budgets_newest on budgets(organization_id, created_at, id);
CREATE TABLE budget_webhooks (
            organization_id text primary key references organizations(id),
            url text not null,
            secret blob not null,
            created_at text not null);
insert into "budget_webhooks" values ('01a2072b-b968-73df-8b98-3d42293cfe35', 'https://hooks.example.org/', X'0102', '2026-11-20T12:00:00.000Z');
CREATE TABLE budget_alerts (
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
            created_at text not null);
insert into "budget_alerts" values ('some id', '01a2072b-b968-73df-8b98-3d42293cfe35', 'some proxy endpoint id', 'some slug', 'day', '2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00.000Z', 0.5, 0.5, 1, 'warn', '2026-11-20T12:00:00.000Z');
CREATE UNIQUE INDEX budget_alerts_once on budget_alerts(
            organization_id, coalesce(proxy_endpoint_id, ''), period, starts_at, limit_usd, percent);
CREATE INDEX budget_alerts_newest on budget_alerts(organization_id, created_at);
CREATE TABLE budget_deliveries (
            id text primary key,
            alert_id text not null references budget_alerts(id) on delete cascade,
            channel text not null check (channel in ('mail', 'webhook')),
            target text not null,
            attempts integer not null default 0,
            due_at text,                    -- null: it has ended
            delivered_at text,
            error text);
insert into "budget_deliveries" values ('some id', 'some id', 'mail', 'ann@example.org', 1, '2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00.000Z', 'some error');
CREATE INDEX budget_deliveries_due on budget_deliveries(due_at) where due_at is not null;
CREATE INDEX budget_deliveries_alert on budget_deliveries(alert_id);
CREATE TABLE retention_rules (
            organization_id text not null references organizations(id),
            proxy_endpoint_id text not null,    -- '': of the organisation
            text_days integer,
            entry_days integer,
            max_bytes integer,
            primary key (organization_id, proxy_endpoint_id)) without rowid;
insert into "retention_rules" values ('01a2072b-b968-73df-8b98-3d42293cfe35', 'some proxy endpoint id', 1, 1, 1);
CREATE TABLE retention_runs (
            organization_id text primary key references organizations(id),
            next_at text not null,
            ended_at text,                      -- of the last run; null: there was none
            entries integer not null default 0,
            texts integer not null default 0,
            bytes_freed integer not null default 0) without rowid;
insert into "retention_runs" values ('01a2072b-b968-73df-8b98-3d42293cfe35', '2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00.000Z', 1, 1, 1);
CREATE TABLE erasures (
            id text primary key,
            organization_id text not null references organizations(id),
            ordered_at text not null,
            user_id text,                       -- null: the operator at the command line
            criteria text,                      -- JSON; null once it has ended
            entries integer not null default 0,
            set_aside integer not null default 0,
            erased_at text,
            ended_at text);
insert into "erasures" values ('some id', '01a2072b-b968-73df-8b98-3d42293cfe35', '2026-11-20T12:00:00.000Z', NULL, NULL, 1, 1, '2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00.000Z');
CREATE INDEX erasures_open on erasures(id) where ended_at is null;
CREATE TABLE erasure_copies (
            erasure_id text not null,
            node text not null,
            copy text not null,                 -- '': of a proxy node, which ships calls
            entries integer not null default 0,
            set_aside integer not null default 0,
            erased_at text,
            shipped text,                       -- all that was shipped by then has arrived
            settled_at text,
            is_logged integer not null default 0,
            primary key (erasure_id, node, copy)) without rowid;
insert into "erasure_copies" values ('some erasure id', 'some node', 'some copy', 1, 1, '2026-11-20T12:00:00.000Z', 'some shipped', '2026-11-20T12:00:00.000Z', 1);
delete from sqlite_sequence;
insert into "sqlite_sequence" values ('audit_log', 1);
commit;
