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
insert into "_sqlite_migrations" values (1, 'otel', 'm001_keep_positions', '2026-11-23 07:00:43.992965+00:00');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE TABLE collectors (collector text primary key) without rowid;
insert into "collectors" values ('https://collector.example.org');
CREATE TABLE positions (
            collector text not null,
            organization_id text not null,
            last_id integer not null,       -- of the last call that is done with
            last_entry_id text,             -- null: none is yet
            exported integer not null,
            dropped integer not null,
            primary key (collector, organization_id)
        ) without rowid
        ;
insert into "positions" values ('https://collector.example.org', 'some organisation', 8, 'e8', 7, 1);
commit;
