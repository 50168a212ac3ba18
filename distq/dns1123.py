"""The two forms that most names in Kubernetes have, with their lengths.

Source: apimachinery util/validation IsDNS1123Label, IsDNS1123Subdomain.
"""

import re

_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"

DNS1123_LABEL = re.compile(rf"(?![-a-z0-9]{{64}}){_PART}")
"""The name of a namespace, for example."""

DNS1123_SUBDOMAIN = re.compile(rf"(?![-a-z0-9.]{{254}}){_PART}(?:\.{_PART})*")
"""The names of most objects, and of API groups."""
