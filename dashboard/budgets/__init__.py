"""Delivery of alerts of budgets and rules, by mail and webhook."""
