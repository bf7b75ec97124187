"""Tests of Taximeter; their folders mirror the rooms."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
