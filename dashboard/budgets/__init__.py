"""Budgets: alerts by mail and webhook."""
