"""Loads the fixtures that start real servers."""

pytest_plugins = [
    "tests.fixtures.redis_servers",
    "tests.fixtures.api_servers",
    "tests.fixtures.servers_report",
]
