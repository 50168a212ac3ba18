"""What ``distq.testing`` shows to a user who looks into it."""

import distq.testing


def test_names_are_shown_before_they_are_loaded() -> None:
    """A prompt that completes names offers every part, and each of them can be had."""
    assert set(distq.testing.__all__) <= set(dir(distq.testing))
    for name in distq.testing.__all__:
        assert getattr(distq.testing, name).__name__ == name
