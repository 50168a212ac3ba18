"""A user with a browser, who posts forms as its pages would."""

import html
import re
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

PASSWORD = "correct horse"


class Visitor:
    """A browser: keeps cookies, and posts with the token of its session."""

    def __init__(self, app: Flask, **headers: str) -> None:
        self.client = app.test_client()
        self.headers = {"Sec-Fetch-Site": "same-origin", **headers}

    def get(self, path: str, **more: Any) -> TestResponse:
        """Fetch a page."""
        return self.client.get(path, headers=self.headers, **more)

    def post(self, path: str, **fields: Any) -> TestResponse:
        """Send a form of this session."""
        return self.post_as_given(path, **{"csrf_token": self.token(), **fields})

    def post_as_given(self, path: str, **fields: Any) -> TestResponse:
        """Send a form as it is, also without a valid token."""
        return self.client.post(path, data=fields, headers=self.headers)

    def token(self) -> str:
        """Return the token that the forms of this session carry."""
        with self.client.session_transaction() as session:
            return str(session.setdefault("csrf", "a-token-that-a-page-made"))

    def log_in(self, name: str, password: str = PASSWORD, **more: str) -> TestResponse:
        """Fetch the form and send it."""
        page = self.get("/login").text
        token = re.search(r'name="csrf_token" value="([^"]+)"', page)
        assert token, page
        return self.post_as_given(
            "/login", csrf_token=html.unescape(token[1]), name=name, password=password, **more
        )

    def messages(self) -> list[str]:
        """Return what the next page would say of the last action."""
        with self.client.session_transaction() as session:
            return [text for _, text in session.pop("_flashes", [])]


def fields_of(page: str) -> dict[str, str | list[str]]:
    """Return what the only form of a page would send: hidden and prefilled fields."""
    (form,) = re.findall(r"<form method=\"post\" action=\"[^\"]*actions.*?</form>", page, re.DOTALL)
    found: dict[str, str | list[str]] = {}
    for name, value in re.findall(r'<input [^>]*name="([^"]+)" value="([^"]*)"', form):
        text = html.unescape(value)
        if name == "key":
            keys = found.setdefault("key", [])
            assert isinstance(keys, list)
            keys.append(text)
        else:
            found[name] = text
    return found
