"""Starts bubblewrap as a user without privileges, for a worker that runs as root.

`python -I -S drop_root.py [--bind PATH | --ro-bind PATH]… -- BWRAP …`: bubblewrap finds each PATH under its number in
/tmp. There, what belongs to root belongs to that user, and what the user makes belongs to root on the disk, because
the mounts map their owners (`mount_setattr(2)`). Bubblewrap alone would leave the agent the user id of root. Files of
/proc and services on abstract sockets give that id more than they give to others.
"""

import ctypes
import os
import stat
import sys

#: User and group of the agent, as the machine sees them. No file on the disk gets them.
NOBODY = 60_900
#: Where bubblewrap finds the paths. Every user may go there.
PLACE = "/tmp"  # noqa: S108 - covered by a file system of its own
# From the headers of Linux. The numbers of the calls are the same on all architectures but Alpha.
OPEN_TREE = 428
MOVE_MOUNT = 429
MOUNT_SETATTR = 442
AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
OPEN_TREE_CLONE = 0x1
MOVE_MOUNT_F_EMPTY_PATH = 0x4
MS_REC = 0x4000
MS_SLAVE = 0x80000
CLONE_NEWNS = 0x20000
CLONE_NEWUSER = 0x10000000
MOUNT_ATTR_IDMAP = 0x100000

_libc = ctypes.CDLL(None, use_errno=True)


class MountAttr(ctypes.Structure):
    """`struct mount_attr`."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def main(*words: str) -> None:
    end = words.index("--")
    command = words[end + 1 :]
    # Afterwards, Python's own modules may be where the user cannot go.
    programs = [os.path.join(folder, command[0]) for folder in os.get_exec_path()]  # noqa: PTH118 - a script
    program = next((path for path in programs if os.access(path, os.X_OK)), command[0])
    try:
        _check(_libc.unshare(CLONE_NEWNS))
        _check(_libc.mount(None, b"/", None, MS_REC | MS_SLAVE, None))
        owners = _owners()
        mounts = [_mount(path, option, owners) for option, path in zip(words[:end:2], words[1:end:2], strict=True)]
        _check(_libc.mount(b"tmpfs", PLACE.encode(), b"tmpfs", 0, b"mode=0755"))
        for number, mount in enumerate(mounts):
            _place(mount, f"{PLACE}/{number}")
        os.chdir("/")
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        os.execv(program, command)  # noqa: S606 - a shell would be one more process
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(f"The worker runs as root, and cannot run the agent as another user: {error.strerror}{where}.")


def _owners() -> int:
    """Return a user namespace in which root on the disk is the user of the agent."""
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(done[1])
        _libc.unshare(CLONE_NEWUSER)
        os.write(ready[1], b"x")
        os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{child}/{name}", "w") as out:  # noqa: PTH123 - pathlib is slow to import
                out.write(f"0 {NOBODY} 1")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(done[1])
        os.waitpid(child, 0)


def _mount(path: str, option: str, owners: int) -> int:
    """Return a mount of a path that is nowhere yet, with its owners mapped. Mounts below keep theirs."""
    flags = OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC
    try:
        mount = int(_check(_libc.syscall(OPEN_TREE, AT_FDCWD, os.fsencode(path), flags)))
        mapped = MountAttr(attr_set=MOUNT_ATTR_IDMAP, userns_fd=owners)
        size = ctypes.sizeof(mapped)
        try:
            _check(_libc.syscall(MOUNT_SETATTR, mount, b"", AT_EMPTY_PATH, ctypes.byref(mapped), size))
        except OSError:
            if option != "--ro-bind":  # what all may read, such as a program, needs no owner
                raise
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from None
    return mount


def _place(mount: int, place: str) -> None:
    """Put a mount into the place where bubblewrap finds it."""
    if stat.S_ISDIR(os.fstat(mount).st_mode):
        os.mkdir(place)  # noqa: PTH102 - pathlib is slow to import
    else:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    _check(_libc.syscall(MOVE_MOUNT, mount, b"", AT_FDCWD, place.encode(), MOVE_MOUNT_F_EMPTY_PATH))
    os.close(mount)


def _check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
