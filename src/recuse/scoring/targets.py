"""Files that a run writes: one for all rows, or one for each input in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

from recuse.files.atomic import check_writable, draft_file, mode_of, publish, sync_folder
from recuse.files.names import STANDARD_STREAM
from recuse.scoring.part_formats import joined, output_format, write_empty
from recuse.scoring.working_folder import PartStore

__all__ = ["Targets", "in_order", "targets_of"]


@dataclass(frozen=True)
class Targets:
    """The files to write.

    Attributes
    ----------
    place : Path
        The file or the folder.
    files : tuple of Path
        One file, or one for each input.
    kind : str
        The format.
    """

    place: Path
    files: tuple[Path, ...]
    kind: str

    @property
    def is_folder(self) -> bool:
        """Whether there is one file for each input."""
        return self.files != (self.place,)

    @property
    def mode(self) -> int | None:
        """The permissions that all existing files of the output give; None if there are no such files."""
        modes = [mode for mode in map(mode_of, self.files) if mode is not None]
        return reduce(and_, modes) if modes else None

    def write(self, store: PartStore, parts: Iterable[tuple[int, int]]) -> None:
        """Put the parts together, given as position of the input and number in order, and rename the results.

        Parameters
        ----------
        store : PartStore
        parts : iterable of tuple of int
        """
        drafts = [store.folder / f"{place}.{self.kind}" for place in range(len(self.files))]
        for draft in drafts:
            draft.unlink(missing_ok=True)  # of an earlier, interrupted run
        with ExitStack() as stack:
            append: Any = None
            current = -1
            for place, number in parts:
                place = place if self.is_folder else 0
                if place != current:
                    stack.close()
                    file = stack.enter_context(draft_file(drafts[place], mode_of(self.files[place])))
                    append, current = stack.enter_context(joined(file, self.kind)), place
                append(store.path(number))
        written = drafts[current]
        for draft, target in zip(drafts, self.files, strict=True):
            if not draft.exists():  # an input without rows
                with draft_file(draft, mode_of(target)) as file:
                    write_empty(file, written)
        self._make_folder()
        for draft, target in zip(drafts, self.files, strict=True):
            publish(draft, target)

    def _make_folder(self) -> None:
        if self.is_folder and not self.place.exists():
            self.place.mkdir()
            sync_folder(self.place.parent)


def targets_of(output: str, source: str, paths: Sequence[str]) -> Targets:
    """Return the files to write for an output path; it is a folder if it ends with "/" or is one.

    Raises
    ------
    ValueError
        If the output would be an input of the next run, or its name has no known ending.
    OSError
        If the output cannot be written.
    """
    place = Path(os.path.realpath(output))
    origin = Path(source).resolve()
    if origin.is_dir() and origin in place.parents:
        raise ValueError(f"{output} must not be in the folder {source} of the input: give another place")
    if not output.endswith(("/", os.sep)) and not place.is_dir():
        kind = output_format(output)
        if source != STANDARD_STREAM and place == origin:
            raise ValueError(f"{output} must not be the input, which it would replace: give another name")
        check_writable(place)
        return Targets(place, (place,), kind)
    if source == STANDARD_STREAM:
        raise ValueError(f"{output} must be a file, since standard input has no name, got a folder")
    if place in (origin, *(Path(path).resolve().parent for path in paths)):
        raise ValueError(f"{output} must not be the folder of the input: give another folder")
    files = tuple(place / Path(path).name for path in paths)
    _check_new_folder(place)
    return Targets(place, files, output_format(paths[0]))


def _check_new_folder(place: Path) -> None:
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(f"{place} is a file, so it cannot be the folder of the output: give another name")
    if not place.exists():
        check_writable(place)
        return
    check_writable(place / "new")
    check_writable(place.with_name(f"{place.name}.new"))  # the finished parts are beside the folder


def in_order(results: Iterator[tuple[int, Any]], done: dict[int, Any]) -> Iterator[tuple[int, Any]]:
    """Yield results by number, with those that were done before, as soon as all before them are there.

    Examples
    --------
    >>> list(in_order(iter([(2, "c"), (1, "b")]), {0: "a"}))
    [(0, 'a'), (1, 'b'), (2, 'c')]
    """
    waiting, number = dict(done), 0
    while number in waiting:
        yield number, waiting.pop(number)
        number += 1
    for found, result in results:
        waiting[found] = result
        while number in waiting:
            yield number, waiting.pop(number)
            number += 1
    if waiting:
        raise RuntimeError(f"part {number} is missing: start the run again")
