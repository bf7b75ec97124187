"""Savings: costs of a session that could have been avoided, each with its remedy. All pure functions."""
