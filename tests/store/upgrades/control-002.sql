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
insert into "_sqlite_migrations" values (1, 'control', 'm001_organizations_and_endpoints', '2026-11-22 09:35:17.940509+00:00');
insert into "_sqlite_migrations" values (2, 'control', 'm002_sign_in', '2026-11-22 09:35:17.940948+00:00');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE TABLE organizations (
            id text primary key, name text not null, created_at text not null);
insert into "organizations" values ('01a2029c-27c0-7517-b9c2-583720b535ca', 'Local', '2026-11-22T09:35:17.952Z');
CREATE TABLE users (
            id text primary key, email text unique, created_at text not null);
insert into "users" values ('01a2029c-27c0-75d1-b9f8-322969fe7710', NULL, '2026-11-22T09:35:17.952Z');
CREATE TABLE memberships (
            organization_id text not null references organizations(id),
            user_id text not null references users(id),
            role text not null check (role in ('owner', 'member')),
            created_at text not null,
            primary key (organization_id, user_id));
insert into "memberships" values ('01a2029c-27c0-7517-b9c2-583720b535ca', '01a2029c-27c0-75d1-b9f8-322969fe7710', 'owner', '2026-11-22T09:35:17.952Z');
CREATE TABLE proxy_endpoints (
            id text primary key,
            organization_id text not null references organizations(id),
            name text not null,
            slug text not null,
            streaming text check (streaming in ('live', 'buffered')),
            metadata_only integer not null default 0,
            created_at text not null,
            deleted_at text);
insert into "proxy_endpoints" values ('01a2029c-27c0-7868-8e20-887d00e07df7', '01a2029c-27c0-7517-b9c2-583720b535ca', 'default', 'default', NULL, 0, '2026-11-22T09:35:17.952Z', NULL);
CREATE UNIQUE INDEX proxy_endpoints_live_slug on proxy_endpoints(slug) where deleted_at is null;
CREATE INDEX proxy_endpoints_slug on proxy_endpoints(slug);
CREATE INDEX proxy_endpoints_newest on proxy_endpoints(organization_id, created_at, id);
CREATE TABLE secrets (name text primary key, value blob not null);
insert into "secrets" values ('credential fingerprint', X'4136EABA12D386888AA7E38809FE4766288EF2B0B87AAB3B1C589815EEE8545F');
CREATE TABLE sign_in_links (
            token_sha256 blob primary key,
            user_id text not null references users(id),
            expires_at text not null,
            used_at text);
insert into "sign_in_links" values (X'702165023325CC801A1F48504E38F39793BF2388AB59963C6534F611239F990A', '01a2029c-27c0-75d1-b9f8-322969fe7710', '2026-11-22T09:50:17.952Z', NULL);
CREATE TABLE sessions (
            token_sha256 blob primary key,
            user_id text not null references users(id),
            created_at text not null,
            seen_at text not null);
CREATE INDEX sessions_user on sessions(user_id);
commit;
