"""Loads the fixtures that start real servers, and what decides and reports how a run goes."""

pytest_plugins = [
    "tests.support.redis_servers",
    "tests.support.api_servers",
    "tests.support.runs",
    "tests.support.report",
]
