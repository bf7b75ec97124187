"""The attack programme: hostile clients, of which the upstream and other clients must notice nothing.

In the suite each case runs once. ``python -m tests.hostile --json report.json`` runs all of them for
longer and with many more clients, while others use the service too, and reports how long these waited.
"""
