"""Loads the fixtures that start real servers."""

pytest_plugins = [
    "tests.support.redis_servers",
    "tests.support.api_servers",
    "tests.support.servers_report",
]
