"""The settings pages: endpoints, budgets and alerts, data, people and keys, security."""
