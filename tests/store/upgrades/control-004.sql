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
insert into "_sqlite_migrations" values (1, 'control', 'm001_organizations_and_endpoints', '2026-11-22 09:36:20.559812+00:00');
insert into "_sqlite_migrations" values (2, 'control', 'm002_sign_in', '2026-11-22 09:36:20.560093+00:00');
insert into "_sqlite_migrations" values (3, 'control', 'm003_keys_and_audit_log', '2026-11-22 09:36:20.560443+00:00');
insert into "_sqlite_migrations" values (4, 'control', 'm004_sign_in_by_address_and_invitations', '2026-11-22 09:36:20.560831+00:00');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE TABLE organizations (
            id text primary key, name text not null, created_at text not null);
insert into "organizations" values ('01a2029d-1c6e-7972-8454-d37d0e31541d', 'Local', '2026-11-22T09:36:20.590Z');
CREATE TABLE users (
            id text primary key, email text unique, created_at text not null);
insert into "users" values ('01a2029d-1c6e-7cd3-a598-5ada230e0cc2', NULL, '2026-11-22T09:36:20.590Z');
CREATE TABLE memberships (
            organization_id text not null references organizations(id),
            user_id text not null references users(id),
            role text not null check (role in ('owner', 'member')),
            created_at text not null,
            primary key (organization_id, user_id));
insert into "memberships" values ('01a2029d-1c6e-7972-8454-d37d0e31541d', '01a2029d-1c6e-7cd3-a598-5ada230e0cc2', 'owner', '2026-11-22T09:36:20.590Z');
CREATE TABLE proxy_endpoints (
            id text primary key,
            organization_id text not null references organizations(id),
            name text not null,
            slug text not null,
            streaming text check (streaming in ('live', 'buffered')),
            metadata_only integer not null default 0,
            created_at text not null,
            deleted_at text);
insert into "proxy_endpoints" values ('01a2029d-1c6e-7e2d-a4e6-3127d05e981d', '01a2029d-1c6e-7972-8454-d37d0e31541d', 'default', 'default', NULL, 0, '2026-11-22T09:36:20.590Z', NULL);
CREATE UNIQUE INDEX proxy_endpoints_live_slug on proxy_endpoints(slug) where deleted_at is null;
CREATE INDEX proxy_endpoints_slug on proxy_endpoints(slug);
CREATE TABLE secrets (name text primary key, value blob not null);
insert into "secrets" values ('credential fingerprint', X'7AC9FC33C163AF136C333A79A55C900985221B76C6B3AE2AFD6C78F9B6E8431F');
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
insert into "sign_in_links" values (X'765792789EC0E36B60BA0677E2754585C50EFEFB861D7191A7CC3EE877FFE53F', '01a2029d-1c6e-7cd3-a598-5ada230e0cc2', NULL, NULL, '/', '2026-11-22T09:51:20.591Z', NULL);
CREATE TABLE invitations (
            id text primary key,
            organization_id text not null references organizations(id),
            email text not null,
            invited_by text,
            created_at text not null,
            expires_at text not null,
            unique (organization_id, email));
CREATE INDEX invitations_email on invitations(email);
delete from sqlite_sequence;
commit;
