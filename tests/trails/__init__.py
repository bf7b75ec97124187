"""The trails of ``CONTRIBUTING.md``, walked: each file makes the changes of one trail in a copy of the
project, exactly those, and runs what must then work."""
