"""Puts a program and the package into a wheel: `make wheels`. Only the standard library is needed, and the same files
give the same bytes."""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import sys
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
DISTRIBUTION = "coppice_ml"
MAX_BYTES = 20 << 20
TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file knows
# The platform tags of Go's platforms. Programs without C need no particular C library.
TAGS = {
    "linux-amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux-arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin-arm64": "macosx_12_0_arm64",
    "windows-amd64": "win_amd64",
}


def metadata(project: dict) -> str:
    """METADATA of core metadata 2.1: https://packaging.python.org/specifications/core-metadata/"""
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    lines += [f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    lines += ["License: Apache-2.0", *(f"Requires-Dist: {d}" for d in project["dependencies"])]
    for extra, needs in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {d}; extra == "{extra}"' for d in needs)]
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", (HERE / "README.md").read_text("utf-8")])


def entries(program: Path, platform: str, project: dict) -> dict[str, tuple[bytes, bool]]:
    """The files of the wheel by name: their bytes, and whether they are programs."""
    files: dict[str, tuple[bytes, bool]] = {}
    for path in sorted((HERE / "coppice").rglob("*")):
        if path.is_file() and path.suffix in (".py", ".typed"):
            files[path.relative_to(HERE).as_posix()] = (path.read_bytes(), False)
    files[f"coppice/bin/{program.name}"] = (program.read_bytes(), True)

    info = f"{DISTRIBUTION}-{project['version']}.dist-info"
    tags = "\n".join(f"Tag: py3-none-{t}" for t in TAGS[platform].split("."))
    scripts = "\n".join(f"{k} = {v}" for k, v in project["scripts"].items())
    files[f"{info}/METADATA"] = (metadata(project).encode(), False)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: coppice\nRoot-Is-Purelib: false\n{tags}\n".encode(), False)
    files[f"{info}/entry_points.txt"] = (f"[console_scripts]\n{scripts}\n".encode(), False)
    files[f"{info}/licenses/LICENSE"] = ((HERE.parent / "LICENSE").read_bytes(), False)
    return files


def write(out: Path, files: dict[str, tuple[bytes, bool]], project: dict) -> None:
    """Writes the wheel, with the record of its files at the end."""
    record = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        def add(name: str, data: bytes, runs: bool) -> None:
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            z.writestr(entry, data)

        for name, (data, runs) in files.items():
            add(name, data, runs)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
        name = f"{DISTRIBUTION}-{project['version']}.dist-info/RECORD"
        add(name, "\n".join([*record, f"{name},,", ""]).encode(), False)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--program", required=True, type=Path, help="the program, built for the platform")
    p.add_argument("--platform", required=True, choices=sorted(TAGS), help="GOOS-GOARCH")
    p.add_argument("--out", required=True, type=Path, help="folder for the wheel")
    a = p.parse_args()
    project = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["project"]
    version = re.search(r'__version__ = "(.*)"', (HERE / "coppice/__init__.py").read_text("utf-8"))
    if version is None:
        print("coppice/__init__.py has no __version__", file=sys.stderr)
        return 1
    project["version"] = version[1]
    a.out.mkdir(parents=True, exist_ok=True)
    out = a.out / f"{DISTRIBUTION}-{project['version']}-py3-none-{TAGS[a.platform]}.whl"
    write(out, entries(a.program, a.platform, project), project)
    print(f"{out}  {out.stat().st_size / (1 << 20):.1f} MiB")
    if out.stat().st_size > MAX_BYTES:
        print(f"more than {MAX_BYTES >> 20} MiB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
