"""A command that ends as its first scan says, for cases that are run without computing anything."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    words = sys.argv[1:]
    how, out = Path(words[1]).read_text(), Path(words[words.index("--out") + 1])
    tried = out / "checkpoint.h5"
    if how == "refused":
        print(json.dumps({"status": "error", "error": f"duotomo joint: {words[1]}: expected views"}))
        sys.exit(2)
    if how == "killed" or (how == "killed once" and not tried.exists()):
        tried.write_text("state")
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "long":
        tried.write_text(str(os.getpid()))
        time.sleep(60)
    if how == "large":
        held = bytearray(400_000_000)
        time.sleep(60)
        del held
    tried.unlink(missing_ok=True)
    (out / "result.json").write_text("{}")
    (out / "words.json").write_text(json.dumps(words))


if __name__ == "__main__":
    main()
