"""A worker that does what a name says: dies, waits, or says that all is well."""

from __future__ import annotations

import json
import os
import signal
import sys
import time


def main() -> None:
    """Answer every line."""
    print("ready", flush=True)
    for line in sys.stdin:
        name, _ = json.loads(line)
        if name == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif name == "exits":
            os._exit(7)
        elif name == "waits":
            time.sleep(60)
        print(json.dumps({"name": name, "code": 0, "seconds": 0.0, "mib": 0.0, "fault": None}), flush=True)


if __name__ == "__main__":
    main()
