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
insert into "_sqlite_migrations" values (1, 'control', 'm001_organizations_and_endpoints', '2026-11-22 09:55:29.451855+00:00');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE TABLE organizations (
            id text primary key, name text not null, created_at text not null);
insert into "organizations" values ('01999999-0000-7000-8000-000000000001', 'Local', '2026-11-21T06:20:00.000Z');
CREATE TABLE users (
            id text primary key, email text unique, created_at text not null);
insert into "users" values ('01999999-0000-7000-8000-000000000002', NULL, '2026-11-21T06:20:00.000Z');
CREATE TABLE memberships (
            organization_id text not null references organizations(id),
            user_id text not null references users(id),
            role text not null check (role in ('owner', 'member')),
            created_at text not null,
            primary key (organization_id, user_id));
insert into "memberships" values ('01999999-0000-7000-8000-000000000001', '01999999-0000-7000-8000-000000000002', 'owner', '2026-11-21T06:20:00.000Z');
CREATE TABLE proxy_endpoints (
            id text primary key,
            organization_id text not null references organizations(id),
            name text not null,
            slug text not null,
            streaming text check (streaming in ('live', 'buffered')),
            metadata_only integer not null default 0,
            created_at text not null,
            deleted_at text);
insert into "proxy_endpoints" values ('01999999-0000-7000-8000-000000000003', '01999999-0000-7000-8000-000000000001', 'default', 'default', NULL, 0, '2026-11-21T06:20:00.000Z', NULL);
CREATE UNIQUE INDEX proxy_endpoints_live_slug on proxy_endpoints(slug) where deleted_at is null;
CREATE INDEX proxy_endpoints_slug on proxy_endpoints(slug);
CREATE INDEX proxy_endpoints_newest on proxy_endpoints(organization_id, created_at, id);
CREATE TABLE secrets (name text primary key, value blob not null);
insert into "secrets" values ('credentials', X'ABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABAB');
commit;
