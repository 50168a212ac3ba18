"""Write ``counts.json`` anew: python -m tests.counted."""

import json
import sys
from pathlib import Path

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.counted import measures

with EmbeddedValkey() as server:
    connection = Connection(server.url)
    counts = {name: round(measure.count(connection), 3) for name, measure in measures.ALL.items()}
    connection.close()
text = json.dumps(counts, indent=2)
(Path(__file__).parent / "counts.json").write_text(f"{text}\n")
sys.stdout.write(f"{text}\n")
