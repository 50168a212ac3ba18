"""The cache of a stream on real scripts under seeded hostile schedules (docs/internals/cache.md)."""
