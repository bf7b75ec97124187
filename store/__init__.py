"""Storage in SQLite and files, without HTTP and threads."""
