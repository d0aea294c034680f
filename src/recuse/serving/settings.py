"""Settings of the service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recuse.serving.access import ADMIN_KEY, Key, Role


@dataclass(frozen=True)
class Settings:
    """What the service serves, and its limits.

    Parameters
    ----------
    models : mapping of str to Path
        Model files by name; the first is the default.
    queue : Path, optional
        File of the review queue. Without it rejected rows are only reported to the caller.
    audit_share : float, default=0.0
        Share of the accepted rows that go to the queue at random.
    training : mapping of str to Path
        Tables of training rows by name of the model, to explain decisions.
    certificates : mapping of str to int
        Number of the certificate, from 1, at whose threshold a model is served, by name of the model.
    api_key : str, optional
        A key for everything. Requests need it in the header `Authorization: Bearer KEY` or `X-API-Key: KEY`.
    keys : tuple of Key
        Further keys, each with a role; ``recuse.serving.access.read_keys`` reads them from a file.
    allowed_hosts : tuple of str, optional
        Names that the header `Host` may have, besides IP addresses and `localhost`; None allows all.
    max_rows : int, default=10_000
        Rows in one request.
    max_cells : int, default=1_000_000
        Rows of one request times columns of the model.
    max_bytes : int, default=16 MiB
        Size of the body of one request. The bodies of all requests at work may have four times as much together.
    max_head_bytes : int, default=32 KiB
        Size of the request line and the headers of one request.
    head_timeout : float, default=10.0
        Seconds for the request line and the headers.
    max_connections : int, default=1000
        Open connections of one process. At the limit, the oldest one without a request at work is closed for a new one.
    rate_limit : float, optional
        Requests per second from one key or, without a valid key, from one address; more get 429.
    timeout : float, default=30.0
        Seconds for one request, with the time to read its body.
    max_requests : int, default=256
        Requests at work at once; others are answered with 503.
    threads : int, default=2
        Threads of a process that decide about large requests.
    reload_seconds : float, default=1.0
        Time between two looks at the model files; 0 never looks.

    Examples
    --------
    >>> Settings({"cars": Path("cars.recuse")}, max_rows=0)
    Traceback (most recent call last):
    ValueError: max_rows must be at least 1, got 0
    """

    models: Mapping[str, Path]
    queue: Path | None = None
    audit_share: float = 0.0
    training: Mapping[str, Path] = field(default_factory=dict)
    certificates: Mapping[str, int] = field(default_factory=dict)
    api_key: str | None = field(default=None, repr=False)
    keys: tuple[Key, ...] = ()
    allowed_hosts: tuple[str, ...] | None = None
    max_rows: int = 10_000
    max_cells: int = 1_000_000
    max_bytes: int = 16 * 2**20
    max_head_bytes: int = 32 * 2**10
    head_timeout: float = 10.0
    max_connections: int = 1000
    rate_limit: float | None = None
    timeout: float = 30.0
    max_requests: int = 256
    threads: int = 2
    reload_seconds: float = 1.0

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("the service needs at least one model file, got none")
        counts = ("max_rows", "max_cells", "max_bytes", "max_head_bytes", "max_connections", "max_requests", "threads")
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("timeout", "head_timeout", "rate_limit"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"{name} must be > 0, got {getattr(self, name)}")
        if not 0 <= self.audit_share <= 1:
            raise ValueError(f"audit_share must be within 0 to 1, got {self.audit_share}")
        if self.api_key is not None and not self.api_key.strip():
            raise ValueError("the API key must not be empty")
        for kind, given in (("training rows", self.training), ("certificates", self.certificates)):
            unknown = [name for name in given if name not in self.models]
            if unknown:
                raise ValueError(f"{kind} need a model of their name, one of {list(self.models)}, got {unknown[0]!r}")

    @property
    def all_keys(self) -> tuple[Key, ...]:
        """The keys with their roles; `api_key` has that of an administrator."""
        return self.keys if self.api_key is None else (Key.of(ADMIN_KEY, Role.ADMIN, self.api_key), *self.keys)


def models_by_name(paths: Iterable[Path]) -> dict[str, Path]:
    """Return model files by name: the name of the file without its ending.

    Parameters
    ----------
    paths : iterable of Path

    Examples
    --------
    >>> list(models_by_name([Path("models/cars.recuse"), Path("homes.recuse")]))
    ['cars', 'homes']
    """
    models: dict[str, Path] = {}
    for path in paths:
        name = path.name.removesuffix(".recuse")
        if name in models:
            raise ValueError(f"model files need different names, got {models[name]} and {path}")
        models[name] = path
    return models
