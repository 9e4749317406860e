"""Who comes to the server of `duotomo view`: some want the page, and some do not know how to ask."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.soak_joint import own_folders

TIMEOUT_S, END_S = 10.0, 10.0
"""Seconds that an answer may take, and the end after Ctrl-C."""

# Whoever runs this in the background may have told processes to ignore Ctrl-C.
MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from duotomo.cli import main; main()"
)


class WrongAnswerError(Exception):
    """The server answered otherwise than it should."""


class Server:
    """`duotomo view` in a process of its own, until `end`."""

    def __init__(self, folder: Path, temporary: Path) -> None:
        # Not a pipe: it could become full, and the server wait.
        self._said = temporary.parent / "said.txt"
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", MAIN, "view", str(folder), "--no-browser"],
                env={**os.environ, **own_folders(temporary)},
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        assert self.process.stdout is not None
        self.url = urlsplit(self.process.stdout.readline().strip())
        if self.url.hostname != "127.0.0.1":
            self.process.kill()
            raise WrongAnswerError(f"view: expected an address; got: {self.said}")
        self.port: int = self.url.port or 0

    @property
    def said(self) -> str:
        """What the server said on standard error."""
        return self._said.read_text(encoding="utf-8")

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        """Return the status and the content of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def knock(self) -> socket.socket:
        """Return a connection on which nothing was said yet."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)

    def end(self) -> tuple[int, float]:
        """Press Ctrl-C; return the exit code and the seconds until the end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=END_S)
        finally:
            self.process.kill()
            self.process.wait()
        return self.process.returncode, time.monotonic() - began


def expect(found: int, *wanted: int) -> None:
    """Raise unless the status of an answer is one of those wanted."""
    if found not in wanted:
        raise WrongAnswerError(f"expected the status {' or '.join(map(str, wanted))}; got {found}")


def page(server: Server) -> None:
    """Load the whole page."""
    status, content = server.ask(server.url.path)
    expect(status, 200)
    if not content.startswith(b"<!doctype html>"):
        raise WrongAnswerError(f"expected the page; got {content[:40]!r}")


def head(server: Server) -> None:
    """Ask how long the page is."""
    expect(server.ask(server.url.path, "HEAD")[0], 200)


def part(server: Server) -> None:
    """Ask for a part of the page; the server gives all of it."""
    expect(server.ask(server.url.path, Range="bytes=100-199")[0], 200)


def elsewhere(server: Server) -> None:
    """Ask for what is not there."""
    expect(server.ask(f"{server.url.path}favicon.ico")[0], 404)


def wrong_token(server: Server) -> None:
    """Ask with a token that is not the server's."""
    expect(server.ask("/" + "x" * 32 + "/")[0], 404)


def wrong_host(server: Server) -> None:
    """Ask under another name."""
    expect(server.ask(server.url.path, Host="example.org")[0], 404)


def wrong_method(server: Server) -> None:
    """Ask to write."""
    expect(server.ask(server.url.path, "POST")[0], 501)


def nonsense(server: Server) -> None:
    """Say what is no request."""
    with server.knock() as connection:
        connection.sendall(b"\x00\xff nonsense\r\n\r\n")
        while answer := connection.recv(4096):
            if b"400" in answer:
                return
    raise WrongAnswerError("expected that nonsense is refused; got the end of the answer")


def long_line(server: Server) -> None:
    """Ask for an address that is longer than any; what is left of it is refused, or not read."""
    with server.knock() as connection, suppress(ConnectionError):
        connection.sendall(b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n")
        expect(_status(connection.recv(4096) or b"HTTP/1.0 414"), 414)


def silent(server: Server) -> None:
    """Say nothing, and leave."""
    with server.knock():
        time.sleep(0.5)


def cut_off(server: Server) -> None:
    """Leave in the middle of a request."""
    with server.knock() as connection:
        connection.sendall(f"GET {server.url.path} HTTP/1.1\r\nHos".encode())


def deaf(server: Server) -> None:
    """Leave in the middle of the answer."""
    with server.knock() as connection:
        connection.sendall(_request(server))
        connection.recv(1000)


def slow_to_ask(server: Server) -> None:
    """Ask in pieces."""
    with server.knock() as connection:
        for start in range(0, len(whole := _request(server)), 20):
            connection.sendall(whole[start : start + 20])
            time.sleep(0.1)
        expect(_status(connection.recv(4096)), 200)


def slow_to_read(server: Server) -> None:
    """Read the answer in pieces, with pauses, for a while."""
    with server.knock() as connection:
        connection.sendall(_request(server))
        for _ in range(10):
            connection.recv(50_000)
            time.sleep(0.1)


def _status(answer: bytes) -> int:
    return int(answer.split()[1])


def _request(server: Server) -> bytes:
    return f"GET {server.url.path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()


CLIENTS: tuple[Callable[[Server], None], ...] = (
    *(page, page, page, head, part, elsewhere, wrong_token, wrong_host, wrong_method),
    *(nonsense, long_line, silent, cut_off, deaf, slow_to_ask, slow_to_read),
)
