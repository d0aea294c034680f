"""Who may ask the service for what: keys with roles, sites, host names, and requests per second."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

_LEAST_CHARACTERS = 16  # a key in a file of keys has at least as many
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # these change nothing, and other sites cannot read the answer

_MOST_CALLERS = 10_000  # the one that was silent for longest is forgotten
_BURST_SECONDS = 2.0  # the requests of this time may come at once after a pause


class Role(StrEnum):
    """What a key is for.

    Examples
    --------
    >>> [str(role) for role in Role]
    ['score', 'review', 'metrics', 'admin']
    """

    SCORE = "score"
    REVIEW = "review"
    METRICS = "metrics"
    ADMIN = "admin"


@dataclass(frozen=True)
class Key:
    """A key, as its digest.

    Attributes
    ----------
    name : str
        Who has the key; with the role `review` the name of the reviewer.
    role : Role
    digest : bytes

    Examples
    --------
    >>> Key.of("shop", Role.SCORE, "open sesame")
    Key(name='shop', role=<Role.SCORE: 'score'>)
    """

    name: str
    role: Role
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, name: str, role: Role, text: str) -> Key:
        """Return the key with this text."""
        return cls(name, role, digest(text.encode()))

    def may(self, role: Role | None) -> bool:
        """Whether the key allows what a role allows; None is what every key allows."""
        return role is None or self.role in (role, Role.ADMIN)


ADMIN_KEY = "the API key"  # name of the one key of a service without a file of keys


def read_keys(path: Path) -> tuple[Key, ...]:
    r"""Read a file of keys: TOML with a table for each role, and in it names and keys.

    Parameters
    ----------
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "keys.toml")
    >>> _ = path.write_text('[review]\nanna = "correct horse battery"')
    >>> read_keys(path)
    (Key(name='anna', role=<Role.REVIEW: 'review'>),)
    >>> folder.cleanup()
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        place = re.search(r"line \d+", str(error))  # the rest of the message could quote a key
        raise ValueError(f"{path} must be TOML in UTF-8{f', see {place[0]}' if place else ''}") from None
    keys = tuple(key for role, table in tables.items() for key in _keys_of_role(path, role, table))
    if not keys:
        raise ValueError(f'{path} must have at least one key, such as [score] and below it shop = "KEY"')
    if len({key.digest for key in keys}) < len(keys):
        raise ValueError(f"{path} must have different keys, got one twice")
    return keys


def _keys_of_role(path: Path, role: str, table: object) -> Iterable[Key]:
    if role not in list(Role):
        raise ValueError(f"{path} may have the tables {', '.join(f'[{role}]' for role in Role)}, got {role!r:.80}")
    if not isinstance(table, Mapping):
        raise ValueError(f"[{role}] of {path} must be a table of names and keys")
    for name, text in table.items():
        if not isinstance(text, str) or len(text) < _LEAST_CHARACTERS or text != text.strip():
            rule = f"a text of at least {_LEAST_CHARACTERS} characters without spaces around it"
            raise ValueError(f"the key of {name!r} in [{role}] of {path} must be {rule}")
        yield Key.of(name, Role(role), text)


def role_for(path: str) -> Role | None:
    """Return the role that a route needs; None if any key will do.

    Examples
    --------
    >>> role_for("/reviews/lease"), role_for("/models")
    (<Role.REVIEW: 'review'>, None)
    """
    if path in ("/metrics", "/reviews/summary"):
        return Role.METRICS
    if path.startswith("/reviews"):
        return Role.REVIEW
    return Role.SCORE if path.startswith(("/predict", "/invocations", "/v2/models")) else None


def is_other_site(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a request that can change something was sent by a page of another site.

    Browsers tell in `Sec-Fetch-Site`, which pages cannot set. They leave it out for plain HTTP, except on the same
    machine; then `Origin` must be the host that the request was sent to.

    Parameters
    ----------
    method : str
    headers : mapping
        With names in lower case.

    Examples
    --------
    >>> is_other_site("POST", {"host": "queue:8000", "origin": "http://other.example"})
    True
    >>> is_other_site("POST", {"host": "queue:8000", "origin": "http://queue:8000"})
    False
    """
    if method in _SAFE_METHODS:
        return False
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and _host_and_port(origin) != _host_and_port(f"//{headers.get('host', '')}")


@lru_cache(maxsize=256)
def host_is_allowed(host: str, allowed: tuple[str, ...]) -> bool:
    """Whether the header `Host` names the service: an IP address, `localhost`, or one of some names.

    A page that points a name of its own at the service (DNS rebinding) sends this name.

    Parameters
    ----------
    host : str
        The value of the header.
    allowed : tuple of str
        Names in lower case; `*.example.org` stands for all names below, and `*` for every name.

    Examples
    --------
    >>> host_is_allowed("127.0.0.1:8000", ()), host_is_allowed("evil.example", ())
    (True, False)
    >>> host_is_allowed("a.example.org", ("*.example.org",))
    True
    """
    name = _host_and_port(f"//{host}")[0].rstrip(".")
    if name == "localhost" or _address(name) is not None:
        return True
    above = {f"*{name[place:]}" for place, letter in enumerate(name) if letter == "."}
    return name in allowed or "*" in allowed or not above.isdisjoint(allowed)


def is_loopback(host: str) -> bool:
    """Whether only processes of the same machine can reach an address to listen at.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


class RateLimit:
    """A bucket of tokens for each caller: a request takes one, and `rate` new ones come every second.

    Parameters
    ----------
    rate : float
        Requests per second.
    clock : callable
        Returns seconds.

    Examples
    --------
    >>> limit = RateLimit(0.5, clock=lambda: 0.0)
    >>> limit.wait_for("shop"), limit.wait_for("shop")
    (0.0, 2.0)
    """

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._size = max(1.0, _BURST_SECONDS * rate)
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_for(self, caller: Hashable) -> float:
        """Take a token and return 0, or return the seconds until there is one.

        Parameters
        ----------
        caller : hashable
        """
        now = self._clock()
        tokens, since = self._buckets.pop(caller, (self._size, now))
        tokens = min(self._size, tokens + self._rate * (now - since))
        wait = max(0.0, (1.0 - tokens) / self._rate)
        self._buckets[caller] = (tokens if wait else tokens - 1.0, now)
        if len(self._buckets) > _MOST_CALLERS:
            self._buckets.popitem(last=False)
        return wait


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _host_and_port(url: str) -> tuple[str, int | None]:
    """Return the host in lower case, and the port if it is not that of the scheme; ("", None) for what has none."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", None if parts.port in (80, 443) else parts.port
    except ValueError:
        return "", None


def digest(key: bytes) -> bytes:
    """Return the digest of a key; the time to find one among digests tells nothing about the keys."""
    return hashlib.sha256(key).digest()
