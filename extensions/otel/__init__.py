"""Exporting finished calls as spans to an OpenTelemetry collector."""

FILE = "otel.db"
