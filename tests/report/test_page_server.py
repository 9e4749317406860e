"""The page is served to this machine only, under one address, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse, RemoteDisconnected
from typing import Any
from urllib.parse import urlsplit

import pytest

from duotomo.errors import DuotomoError
from duotomo.report.page_server import PageServer, serving

PAGE = "<!doctype html><title>größer</title>"


@pytest.fixture
def server() -> Iterator[PageServer]:
    with serving(PageServer(PAGE)) as running:
        yield running


def ask(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_the_address_gives_the_page(server: PageServer) -> None:
    answer, content = ask(server, urlsplit(server.url).path)
    assert answer.status == 200
    assert content.decode() == PAGE
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "Python" not in answer.headers["Server"]


def test_head_gives_the_length_alone(server: PageServer) -> None:
    answer, content = ask(server, urlsplit(server.url).path, "HEAD")
    assert (answer.status, content) == (200, b"")
    assert int(answer.headers["Content-Length"]) == len(PAGE.encode())


@pytest.mark.parametrize(
    "path",
    ["/", "/report.html", "/{token}", "/{token}/x", "/{token}/../{token}/", "/{wrong}/", "/{token}/?x=1"],
)
def test_other_paths_are_not_found(server: PageServer, path: str) -> None:
    wrong = server.token[:-1] + ("a" if server.token[-1] != "a" else "b")
    answer, content = ask(server, path.format(token=server.token, wrong=wrong))
    assert answer.status == 404
    assert server.token not in content.decode()
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_another_name_for_this_machine_is_not_answered(server: PageServer, host: str) -> None:
    answer, _ = ask(server, urlsplit(server.url).path, Host=host.format(port=server.server_port))
    assert answer.status == 404


def test_localhost_is_this_machine(server: PageServer) -> None:
    answer, _ = ask(server, urlsplit(server.url).path, Host=f"localhost:{server.server_port}")
    assert answer.status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_reading_is_known(server: PageServer, method: str) -> None:
    answer, content = ask(server, urlsplit(server.url).path, method)
    assert answer.status == 501
    assert PAGE.encode() not in content


def test_only_loopback_listens_and_tokens_differ(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with serving(PageServer(PAGE)) as other:
        assert other.token != server.token
        assert len(other.token) >= 32


def test_the_port_is_free_afterwards() -> None:
    with serving(PageServer(PAGE)) as first:
        port = first.server_port
    with serving(PageServer(PAGE, port=port)) as second:
        assert second.server_port == port


def test_a_port_in_use_is_named(server: PageServer) -> None:
    with pytest.raises(DuotomoError, match=f"expected `port` {server.server_port} of 127.0.0.1 to be free"):
        PageServer(PAGE, port=server.server_port)


def failing(error: Exception) -> Any:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "shown"), [(BrokenPipeError(), False), (TimeoutError(), False), (KeyError(), True)]
)
def test_a_client_that_leaves_is_no_error(
    server: PageServer,
    error: Exception,
    shown: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(server.RequestHandlerClass, "handle", failing(error))
        with pytest.raises(RemoteDisconnected):
            ask(server, urlsplit(server.url).path)
    # The next one is answered, after the error was.
    assert ask(server, urlsplit(server.url).path)[0].status == 200
    assert ("Traceback" in capfd.readouterr().err) == shown
