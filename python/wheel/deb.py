"""Packs an unpacked archive of `make dist` as a Debian package: the programs in /usr/lib/coppice, and /usr/bin/coppice.

The same inputs give the same bytes. A Debian package is an ar archive of two tar archives, so that no tool is needed."""

from __future__ import annotations

import argparse
import gzip
import io
import re
import tarfile
from pathlib import Path

ARCHITECTURES = {"linux-amd64": "amd64", "linux-arm64": "arm64"}
CONTROL = """Package: coppice
Version: {version}
Architecture: {architecture}
Maintainer: Coppice <coppice@localhost>
Section: science
Priority: optional
Installed-Size: {kilobytes}
Description: trains gradient-boosted click models, here or on Google Cloud Batch
"""


def packed(files: dict[str, tuple[bytes, int] | str]) -> bytes:
    """A tar.gz: by path, contents and mode, or the target of a link. Folders are added."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as z, tarfile.open(fileobj=z, mode="w", format=tarfile.GNU_FORMAT) as t:
        for folder in sorted({str(p) for name in files for p in Path(name).parents if str(p) != "."}):
            info = tarfile.TarInfo(f"./{folder}/")
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            t.addfile(info)
        for name, what in sorted(files.items()):
            info = tarfile.TarInfo(f"./{name}")
            if isinstance(what, str):
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, what, 0o777
                t.addfile(info)
                continue
            info.size, info.mode = len(what[0]), what[1]
            t.addfile(info, io.BytesIO(what[0]))
    return out.getvalue()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--folder", type=Path, required=True)
    p.add_argument("--platform", choices=ARCHITECTURES, required=True)
    p.add_argument("--version", required=True)
    p.add_argument("--out", type=Path, required=True, help="file to write")
    a = p.parse_args()
    files: dict[str, tuple[bytes, int] | str] = {"usr/bin/coppice": "../lib/coppice/coppice"}
    for path in sorted(a.folder.iterdir()):
        program = path.stat().st_mode & 0o100
        place = "usr/lib/coppice" if program else "usr/share/doc/coppice"
        name = "copyright" if path.name == "LICENSE" else path.name
        files[f"{place}/{name}"] = path.read_bytes(), 0o755 if program else 0o644
    size = sum(len(f[0]) for f in files.values() if not isinstance(f, str))
    version = a.version.removeprefix("v")
    if not re.match(r"\d+\.", version):  # a commit
        version = f"0~{version}"
    control = CONTROL.format(version=version, architecture=ARCHITECTURES[a.platform], kilobytes=size // 1024 + 1)
    members = {"debian-binary": b"2.0\n", "control.tar.gz": packed({"control": (control.encode(), 0o644)}),
               "data.tar.gz": packed(files)}
    with a.out.open("wb") as out:
        out.write(b"!<arch>\n")
        for name, data in members.items():
            out.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode())
            out.write(data + b"\n" * (len(data) % 2))
    print(f"{a.out}  {a.out.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
