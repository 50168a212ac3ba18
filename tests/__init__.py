"""distq's tests; folders mirror the package, ``support`` is what several of them share."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The project's folder."""
