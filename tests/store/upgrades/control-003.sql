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
insert into "_sqlite_migrations" values (1, 'control', 'm001_organizations_and_endpoints', '2026-11-22 09:37:04.349665+00:00');
insert into "_sqlite_migrations" values (2, 'control', 'm002_sign_in', '2026-11-22 09:37:04.349959+00:00');
insert into "_sqlite_migrations" values (3, 'control', 'm003_keys_and_audit_log', '2026-11-22 09:37:04.354682+00:00');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE TABLE organizations (
            id text primary key, name text not null, created_at text not null);
insert into "organizations" values ('01a2029d-c768-7ea0-8ce9-a9877e1ba4d0', 'Local', '2026-11-22T09:37:04.360Z');
CREATE TABLE users (
            id text primary key, email text unique, created_at text not null);
insert into "users" values ('01a2029d-c769-70c6-bfff-fdf5eaef46a4', NULL, '2026-11-22T09:37:04.361Z');
CREATE TABLE memberships (
            organization_id text not null references organizations(id),
            user_id text not null references users(id),
            role text not null check (role in ('owner', 'member')),
            created_at text not null,
            primary key (organization_id, user_id));
insert into "memberships" values ('01a2029d-c768-7ea0-8ce9-a9877e1ba4d0', '01a2029d-c769-70c6-bfff-fdf5eaef46a4', 'owner', '2026-11-22T09:37:04.361Z');
CREATE TABLE proxy_endpoints (
            id text primary key,
            organization_id text not null references organizations(id),
            name text not null,
            slug text not null,
            streaming text check (streaming in ('live', 'buffered')),
            metadata_only integer not null default 0,
            created_at text not null,
            deleted_at text);
insert into "proxy_endpoints" values ('01a2029d-c769-71d8-bff9-4f2813fdb0b4', '01a2029d-c768-7ea0-8ce9-a9877e1ba4d0', 'default', 'default', NULL, 0, '2026-11-22T09:37:04.361Z', NULL);
CREATE UNIQUE INDEX proxy_endpoints_live_slug on proxy_endpoints(slug) where deleted_at is null;
CREATE INDEX proxy_endpoints_slug on proxy_endpoints(slug);
CREATE TABLE secrets (name text primary key, value blob not null);
insert into "secrets" values ('credential fingerprint', X'28E71471AA1E214331D48AF2CE01628D8C3A04B1884BCC1A75EC3B1FC670C1C7');
CREATE TABLE sign_in_links (
            token_sha256 blob primary key,
            user_id text not null references users(id),
            expires_at text not null,
            used_at text);
insert into "sign_in_links" values (X'E64E90214EAD67AD6E342553FE77C5E4966B27F084E14040675874E6055C6C5F', '01a2029d-c769-70c6-bfff-fdf5eaef46a4', '2026-11-22T09:52:04.361Z', NULL);
CREATE TABLE sessions (
            token_sha256 blob primary key,
            user_id text not null references users(id),
            created_at text not null,
            seen_at text not null);
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
CREATE INDEX audit_log_newest on audit_log(organization_id, id);
delete from sqlite_sequence;
commit;
