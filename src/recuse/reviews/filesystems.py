"""Network file systems, on which the write-ahead log of SQLite loses rows."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_MOUNT_TABLE = Path("/proc/self/mountinfo")  # only Linux has it
_NETWORK = {
    *("nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "9p", "afs", "auristorfs", "coda"),
    *("ceph", "glusterfs", "lustre", "beegfs", "gpfs", "orangefs", "pvfs2", "panfs", "wekafs", "davfs"),
}
# programs of FUSE whose files are on other machines, as in fuse.sshfs
_NETWORK_PROGRAMS = {
    *("sshfs", "ceph", "ceph-fuse", "glusterfs", "davfs", "davfs2", "s3fs", "goofys", "gcsfuse", "blobfuse"),
    *("blobfuse2", "mount-s3", "rclone", "juicefs", "seaweedfs", "mfs", "smbnetfs", "curlftpfs", "nfs"),
}
_SANDBOX = "9p"  # as the root, a local disk that a sandbox such as gVisor passes on


def check_local(path: Path) -> None:
    """Raise an error if a file is on a network file system, or would be; links are followed.

    Mounts are known on Linux, shares by their names on Windows. Elsewhere nothing is checked.

    Raises
    ------
    OSError
        If it is.
    """
    kind = _network_kind(Path(os.path.realpath(path)))
    if kind is not None:
        raise OSError(
            f"the review queue {path} must be on a local disk, got a network file system ({kind}): give another path"
        )


def _network_kind(path: Path) -> str | None:
    """Return the type of the network file system of a path; None if it is local or not known."""
    if sys.platform == "win32":
        return "share" if path.drive.startswith("\\\\") else None
    try:
        table = _MOUNT_TABLE.read_text(errors="surrogateescape")
    except OSError:  # not Linux, or no /proc in a sandbox
        return None
    point, kind = mount_of(str(path), table)
    program = kind.removeprefix("fuse.")
    is_network = kind in _NETWORK or (program != kind and program in _NETWORK_PROGRAMS)
    return kind if is_network and (point, kind) != ("/", _SANDBOX) else None


def mount_of(path: str, table: str) -> tuple[str, str]:
    r"""Return the mount point and the type of the file system of a path.

    Parameters
    ----------
    path : str
        An absolute path without links.
    table : str
        Text of /proc/self/mountinfo; see proc(5).

    Examples
    --------
    >>> table = "27 1 254:0 / / rw - ext4 /dev/vda rw\n32 27 0:41 / /srv rw shared:2 - nfs4 nas:/srv rw\n"
    >>> mount_of("/srv/reviews.sqlite", table), mount_of("/srvs/reviews.sqlite", table)
    (('/srv', 'nfs4'), ('/', 'ext4'))
    """
    found = ("", "")
    for line in table.splitlines():
        fields, _, rest = line.partition(" - ")
        if not rest:
            continue
        point = _unescaped(fields.split(" ")[4])
        above = path == point or path.startswith(point.rstrip("/") + "/")
        if above and len(point) >= len(found[0]):  # the later of two mounts at one point is seen
            found = (point, rest.split(" ")[0])
    return found


def _unescaped(point: str) -> str:
    r"""Return a mount point with its spaces, which the table has as \040."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point)
