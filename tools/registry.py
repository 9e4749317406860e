"""Wheels that the package indexes offer which pip is set up with."""

from __future__ import annotations

import ast
import hashlib
import html
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from email.parser import Parser
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tools.requirements import MACHINES, PYTHONS

_LINK = re.compile(r'href="([^"#]+)(?:#sha256=([0-9a-f]{64}))?"')


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A file that an index offers."""

    url: str
    sha256: str

    def metadata(self) -> str:
        """Return its metadata, as an index has them beside the wheel; raise `HTTPError` if it does not."""
        if self.file_path is not None:
            return self.metadata_inside()
        with urllib.request.urlopen(f"{self.url}.metadata") as answer:
            return str(answer.read(), "utf-8")

    def metadata_inside(self) -> str:
        """Return its metadata, out of the wheel itself."""
        with urllib.request.urlopen(self.url) as answer, zipfile.ZipFile(BytesIO(answer.read())) as archive:
            (member,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
            return str(archive.read(member), "utf-8")

    @property
    def file_path(self) -> Path | None:
        """Where it lies on this machine, if it does."""
        parts = urllib.parse.urlparse(self.url)
        return Path(urllib.parse.unquote(parts.path)) if parts.scheme == "file" else None


@cache
def requirements(name: str, version: str) -> list[Requirement]:
    """Return what a version asks for."""
    offered = wheels(name, version)
    if not offered:
        raise SystemExit(
            f"lock: expected a wheel of {name} {version} for Linux; got none. Pin another version."
        )
    for wheel in offered:
        # An index has the metadata beside some wheels, not beside all of them.
        with suppress(urllib.error.HTTPError):
            return _parsed(wheel.metadata())
    with suppress(PackageNotFoundError):
        installed = distribution(name)
        if installed.version == version:
            return [Requirement(one) for one in installed.requires or ()]
    return _parsed(offered[0].metadata_inside())


def _parsed(metadata: str) -> list[Requirement]:
    return [Requirement(one) for one in Parser().parsestr(metadata).get_all("Requires-Dist", [])]


@cache
def wheels(name: str, version: str) -> list[Wheel]:
    """Return the wheels of a version that the promised Pythons can install on Linux."""
    found = [
        one for index in _indexes() for one in _listed(f"{index.rstrip('/')}/{canonicalize_name(name)}/")
    ]
    found += [Wheel(url=one.as_uri(), sha256="") for folder in _folders() for one in folder.glob("*.whl")]
    fitting = [one for one in found if _fits(one.url, canonicalize_name(name), version)]
    return [one if one.sha256 else Wheel(url=one.url, sha256=_sha256(one)) for one in fitting]


def _fits(url: str, name: str, version: str) -> bool:
    file = urllib.parse.unquote(url.rsplit("/", 1)[-1])
    try:
        offered, offered_version, _, tags = parse_wheel_filename(file)
    except ValueError:
        return False
    return offered == name and offered_version == Version(version) and not tags.isdisjoint(_tags())


@cache
def _tags() -> frozenset[Tag]:
    """Return the tags of wheels that the promised Pythons can install, on Linux with the GNU C library."""
    systems = [f"manylinux_2_{minor}" for minor in range(5, 40)] + [
        "manylinux1",
        "manylinux2010",
        "manylinux2014",
    ]
    platforms = [f"{system}_{machine}" for system in [*systems, "linux"] for machine in MACHINES]
    found: set[Tag] = set()
    for python in PYTHONS:
        version = tuple(int(part) for part in python.split("."))
        found |= {*cpython_tags(version, platforms=platforms)}
        found |= {*compatible_tags(version, interpreter=f"cp{version[0]}{version[1]}", platforms=platforms)}
    return frozenset(found)


def _listed(page: str) -> list[Wheel]:
    """Return what a page of the simple repository API lists; nothing if the index does not have it."""
    try:
        with urllib.request.urlopen(page) as answer:
            text = answer.read().decode()
    except urllib.error.URLError as error:
        if getattr(error, "code", None) != 404 and not page.startswith("file:"):
            raise
        return []
    links = _LINK.findall(text)
    return [Wheel(url=urllib.parse.urljoin(page, html.unescape(url)), sha256=digest) for url, digest in links]


def _sha256(wheel: Wheel) -> str:
    if wheel.file_path is None:
        raise SystemExit(f"lock: expected a SHA-256 of {wheel.url} in its index; got none.")
    with wheel.file_path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _indexes() -> list[str]:
    options = _pip_options()
    return [*(options.get("index-url") or [_default_index()]), *options.get("extra-index-url", [])]


def _default_index() -> str:
    # Pip alone names it, in a module that is not for others: a process of its own imports it.
    code = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def _folders() -> list[Path]:
    return [Path(one.removeprefix("file://")) for one in _pip_options().get("find-links", [])]


@cache
def _pip_options() -> dict[str, list[str]]:
    """Return pip's settings, of files and the environment; the environment wins."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [re.match(r"(?P<where>.*)\.(?P<name>[\w-]+)=(?P<value>.*)", line) for line in said.splitlines()]
    settings = sorted((one for one in found if one), key=lambda one: one["where"] == ":env:")
    return {one["name"]: str(ast.literal_eval(one["value"])).split() for one in settings}
