"""Finished parts of a run, as files that are used again only if this run wrote them."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recuse.files.atomic import create_file
from recuse.scoring.summary import PartSummary

__all__ = ["PartStore", "write_whole"]


def write_whole(path: Path, data: Any, mode: int | None = None) -> None:
    """Write a small file as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with create_file(temporary, mode) as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:  # such as a full disk, on which the rest would take space
        temporary.unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class PartStore:
    """Finished parts of a run: a file with the rows of each, and one with its summary and checksum.

    The checksum is the SHA-256 of the key of the run, the number, the summary and the rows of the part, so that the
    rows of another part or of another run are not used.

    Attributes
    ----------
    folder : Path
    key : str
        The key of the run.
    mode : int or None
        Permissions of the files; None for those of any new file.
    """

    folder: Path
    key: str = ""
    mode: int | None = None

    @property
    def has_parts(self) -> bool:
        """Whether there is a finished part."""
        return any(self.folder.glob("*.json"))

    def path(self, number: int) -> Path:
        """Return the path of the rows of a part."""
        return self.folder / f"{number:07d}.part"

    def save(self, number: int, data: Any, summary: PartSummary) -> None:
        """Store a part; its summary is written last, so a part with a summary is complete."""
        write_whole(self.path(number), data, self.mode)
        plain = summary.to_dict()
        facts = {"checksum": self._checksum(number, plain, data), "summary": plain}
        write_whole(self._summary_path(number), json.dumps(facts).encode(), self.mode)

    def load(self, number: int) -> PartSummary | None:
        """Return the summary of a part; None if the part is not there, or not as this run wrote it."""
        try:
            facts = json.loads(self._summary_path(number).read_bytes())
            expected = self._checksum(number, facts["summary"], self.path(number).read_bytes())
            return PartSummary.from_dict(facts["summary"]) if facts["checksum"] == expected else None
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def finished(self) -> dict[int, PartSummary]:
        """Return the summaries of the complete parts by number."""
        numbers = sorted(int(path.stem) for path in self.folder.glob("*.json"))
        loaded = {number: self.load(number) for number in numbers}
        return {number: summary for number, summary in loaded.items() if summary is not None}

    def _checksum(self, number: int, summary: Any, data: Any) -> str:
        facts = json.dumps([self.key, number, summary], sort_keys=True)
        digest = hashlib.sha256(facts.encode() + b"\n")
        digest.update(data)
        return digest.hexdigest()

    def _summary_path(self, number: int) -> Path:
        return self.folder / f"{number:07d}.json"
