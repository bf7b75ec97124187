"""SQLite and files. No HTTP, no threads; every other package may import this one."""
