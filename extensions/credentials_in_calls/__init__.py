"""The search for credentials in what calls add to conversations, and its page for owners."""

FILE = "secrets.db"  # of an organisation
