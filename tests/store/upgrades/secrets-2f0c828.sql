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
insert into "_sqlite_migrations" values (1, 'secrets', 'm001_found_secrets', '2026-11-23 06:50:45.356442+00:00');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE TABLE progress (id integer primary key check (id = 1), usage_id integer not null, piece_id integer not null);
insert into "progress" values (1, 8, 18);
CREATE TABLE found (
            usage_id integer not null,
            digest blob not null,          -- HMAC of the credential
            kind text not null,
            place text not null,           -- who said it
            shown text not null,           -- its first characters
            created_at text not null,      -- arrival of the call
            primary key (usage_id, digest)
        ) without rowid
        ;
insert into "found" values (2, X'0102', 'AWS access key', 'tool', 'AKIA…', '2026-11-20T12:00:00.000Z');
CREATE INDEX found_digest on found (digest, usage_id);
commit;
