"""The trails of ``CONTRIBUTING.md``, walked: each file makes the changes of one trail, exactly those, in a
copy of the project, and ``test_walks.py`` runs what must then work."""
