"""The pages: sign-in, and what the service does."""
