"""A page that is one file: the browser is forbidden to fetch anything, and to run another script or style."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape


def offline_html(*, title: str, style: str, script: str, body: str, images: str = "data:") -> str:
    """Return a page.

    title: as plain text. style, script: what the page has of them; the script runs when all else is there.
    body: elements. images: where pictures may come from, in words of a content security policy.
    """
    # `</script` would end the element: in a script's strings and patterns, `<\\/script` means the same.
    script = script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            f"img-src {images}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{body}<script>{script}</script>
</body>
</html>
"""


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
