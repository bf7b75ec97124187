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
insert into "_sqlite_migrations" values (1, 'control', 'm001_organizations_and_endpoints', '2026-11-22 10:22:21.205416+00:00');
insert into "_sqlite_migrations" values (2, 'control', 'm002_sign_in', '2026-11-22 10:22:21.205683+00:00');
insert into "_sqlite_migrations" values (3, 'control', 'm003_keys_and_audit_log', '2026-11-22 10:22:21.206050+00:00');
insert into "_sqlite_migrations" values (4, 'control', 'm004_sign_in_by_address_and_invitations', '2026-11-22 10:22:21.218998+00:00');
insert into "_sqlite_migrations" values (5, 'control', 'm005_index_of_all_endpoints', '2026-11-22 10:22:21.219729+00:00');
insert into "_sqlite_migrations" values (6, 'control', 'm006_budgets', '2026-11-22 10:22:21.220300+00:00');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE TABLE organizations (
            id text primary key, name text not null, created_at text not null, time_zone text not null default 'UTC');
insert into "organizations" values ('01a202c7-3c36-789e-991e-c7f1e58dff6b', 'Local', '2026-11-22T10:22:21.238Z', 'UTC');
CREATE TABLE users (
            id text primary key, email text unique, created_at text not null);
insert into "users" values ('01a202c7-3c36-7b2b-90c2-76350814fa7b', NULL, '2026-11-22T10:22:21.238Z');
CREATE TABLE memberships (
            organization_id text not null references organizations(id),
            user_id text not null references users(id),
            role text not null check (role in ('owner', 'member')),
            created_at text not null,
            primary key (organization_id, user_id));
insert into "memberships" values ('01a202c7-3c36-789e-991e-c7f1e58dff6b', '01a202c7-3c36-7b2b-90c2-76350814fa7b', 'owner', '2026-11-22T10:22:21.238Z');
CREATE TABLE proxy_endpoints (
            id text primary key,
            organization_id text not null references organizations(id),
            name text not null,
            slug text not null,
            streaming text check (streaming in ('live', 'buffered')),
            metadata_only integer not null default 0,
            created_at text not null,
            deleted_at text);
insert into "proxy_endpoints" values ('01a202c7-3c36-7c3e-85c8-9ffc9601ef61', '01a202c7-3c36-789e-991e-c7f1e58dff6b', 'default', 'default', NULL, 0, '2026-11-22T10:22:21.238Z', NULL);
CREATE UNIQUE INDEX proxy_endpoints_live_slug on proxy_endpoints(slug) where deleted_at is null;
CREATE INDEX proxy_endpoints_slug on proxy_endpoints(slug);
CREATE TABLE secrets (name text primary key, value blob not null);
insert into "secrets" values ('credential fingerprint', X'3E81627601087AE05E0D51CA97B07A1682E347467714CD85779D3F2972D8CEB8');
CREATE TABLE sessions (
            token_sha256 blob primary key,
            user_id text not null references users(id),
            created_at text not null,
            seen_at text not null, organization_id text references organizations(id));
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
insert into "audit_log" values (1, '2026-11-22T10:22:21.239Z', '01a202c7-3c36-789e-991e-c7f1e58dff6b', NULL, NULL, 'user.link', '01a202c7-3c36-7b2b-90c2-76350814fa7b', '{"email": null, "operator": "root"}');
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
insert into "sign_in_links" values (X'F12FB216B384C3C2085AD87A50F5311105077A3016BE392B97239A2136CBD793', '01a202c7-3c36-7b2b-90c2-76350814fa7b', NULL, NULL, '/', '2026-11-22T10:37:21.239Z', NULL);
CREATE TABLE invitations (
            id text primary key,
            organization_id text not null references organizations(id),
            email text not null,
            invited_by text,
            created_at text not null,
            expires_at text not null,
            unique (organization_id, email));
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
CREATE UNIQUE INDEX budgets_subject
            on budgets(organization_id, coalesce(proxy_endpoint_id, ''));
CREATE INDEX budgets_newest on budgets(organization_id, created_at, id);
CREATE TABLE budget_webhooks (
            organization_id text primary key references organizations(id),
            url text not null,
            secret blob not null,
            created_at text not null);
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
CREATE INDEX budget_deliveries_due on budget_deliveries(due_at) where due_at is not null;
CREATE INDEX budget_deliveries_alert on budget_deliveries(alert_id);
delete from sqlite_sequence;
insert into "sqlite_sequence" values ('audit_log', 1);
commit;
