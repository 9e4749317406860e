"""A page on this machine only: loopback, one address that cannot be guessed, nothing but reading."""

from __future__ import annotations

import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from duotomo.errors import DuotomoError
from duotomo.io.durable import durable

HOST = "127.0.0.1"

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer(ThreadingHTTPServer):
    """Serves one page at `url`, to this machine only; every other path is not found.

    Parameters
    ----------
    page : str
        HTML.
    port : int
        To serve on; 0 takes a free one.

    Raises
    ------
    DuotomoError
        If the port is not free.
    """

    daemon_threads = True

    def __init__(self, page: str, *, port: int = 0) -> None:
        self.page = page.encode()
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), _Handler)
            # Whoever knocks and leaves does not keep it from closing.
            self.socket.settimeout(1.0)
        except (OSError, OverflowError) as error:
            raise DuotomoError(
                f"PageServer: expected `port` {port} of {HOST} to be free; got: {error}. Choose another one, "
                f"or 0 for any that is free."
            ) from error

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, str]:
        """What a browser may call the server; under any other name it was led here."""
        return f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Show an error with its traceback, unless it is that a client has left or says nothing more.

        Parameters
        ----------
        request, client_address : object
            Of the client.
        """
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


@contextmanager
def serving(server: PageServer) -> Iterator[PageServer]:
    """Serve in the background; stop, and close the port, at the end.

    Parameters
    ----------
    server : PageServer
        With its page.

    Yields
    ------
    PageServer
        The same, while it serves.
    """
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def doorway(url: str) -> Iterator[Path]:
    """Give a file that leads a browser to an address, for its owner only, until the end.

    What a browser is started with can be seen by everybody on the machine; the address must not be.

    Parameters
    ----------
    url : str
        Where to.

    Yields
    ------
    Path
        Of the file, in a folder of its own.
    """
    with TemporaryDirectory(prefix="duotomo-") as folder:
        path = Path(folder, "open.html")
        with durable("duotomo view", path) as fresh:
            fresh.write_text(
                f'<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
                f'<meta http-equiv="refresh" content="0; url={escape(url)}"><title>duotomo</title>\n',
                encoding="utf-8",
            )
        yield path


@contextmanager
def until_interrupted() -> Iterator[Callable[[], None]]:
    """Give what returns once Ctrl-C was pressed, whichever thread the system tells of it, and however early.

    Yields
    ------
    callable
        Waits.
    """
    stopped: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))

    def wait() -> None:
        # Where another thread gets the signal, this one is not woken.
        while not stopped:
            time.sleep(0.1)

    try:
        yield wait
    finally:
        signal.signal(signal.SIGINT, before)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    # A connection that says nothing does not stay.
    timeout = 30

    def do_GET(self) -> None:
        self._answer(with_page=True)

    def do_HEAD(self) -> None:
        self._answer(with_page=False)

    def version_string(self) -> str:
        return "duotomo"

    def log_message(self, format: str, *args: object) -> None:
        # The address holds the token.
        pass

    def _answer(self, *, with_page: bool) -> None:
        # Bytes, since only ASCII text can be compared in constant time.
        wanted = secrets.compare_digest(self.path.encode(), f"/{self.server.token}/".encode())
        if self.headers.get("Host") not in self.server.hosts or not wanted:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(self.server.page)))
        self.end_headers()
        if with_page:
            self.wfile.write(self.server.page)

    def end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()
