"""``taximeter reconcile``: recorded usage compared with the usage and cost reports of the upstream."""

FILE = "reconciliation.json"  # of an organisation
