"""Generated requests against `recuse serve`: Schemathesis must see no server error and only documented answers.

Schemathesis runs in an environment of its own:

    python benchmarks/service_fuzz.py --schemathesis PATH/bin/schemathesis --seconds 60
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from service import make_models, running, serve

# rows of the right form can still be refused: by their costs, ids and dates, whose rules a schema cannot state
_LEFT_OUT = "positive_data_acceptance"


def main() -> int:
    """Serve models, and run Schemathesis against the service."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemathesis", required=True, help="path of the program")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the models are kept for the next run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        make_models(folder)
        queue = ["--queue", str(Path(temporary) / "reviews.sqlite"), "--audit-share", "0.5"]
        with running([*serve(folder / "auto.recuse", folder / "mlp.recuse"), *queue]) as ((host, port), _):
            options = ["--max-time", str(arguments.seconds), "--seed", str(arguments.seed), "--continue-on-failure"]
            command = [arguments.schemathesis, "run", f"http://{host}:{port}/openapi.json", *options]
            return subprocess.run([*command, "--exclude-checks", _LEFT_OUT], cwd=temporary, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
