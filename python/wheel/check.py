"""Checks wheels: the record of their files, the format of their program, and its version where this machine, or an
emulator of another, can run it. `make wheels-check`."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# By a word of the wheel's tag: the first bytes of the program, where its processor is, and what it is.
# ELF: https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html; Mach-O: mach-o/loader.h
PE = 0x80  # where Go's linker puts the PE header: https://learn.microsoft.com/windows/win32/debug/pe-format
FORMATS = {
    "x86_64": (b"\x7fELF\x02", 18, b"\x3e\x00"),
    "aarch64": (b"\x7fELF\x02", 18, b"\xb7\x00"),
    "macosx": (b"\xcf\xfa\xed\xfe", 4, b"\x0c\x00\x00\x01"),
    "win_amd64": (b"MZ", PE + 4, b"\x64\x86"),
}


def check(path: Path, version: str) -> str:
    """What is wrong with a wheel, or else what was seen."""
    with zipfile.ZipFile(path) as z:
        names = z.namelist()
        record = next((n for n in names if n.endswith(".dist-info/RECORD")), None)
        if record is None:
            raise SystemExit(f"{path.name}: no RECORD")
        listed = {row[0]: row[1:] for row in csv.reader(io.StringIO(z.read(record).decode()))}
        if sorted(listed) != sorted(names):
            raise SystemExit(f"{path.name}: RECORD lists {sorted(set(listed) ^ set(names))} or misses them")
        for name, (digest, size) in listed.items():
            data = z.read(name)
            want = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            if name != record and (digest, size) != (want, str(len(data))):
                raise SystemExit(f"{path.name}: {name} is not what RECORD says")
        kind = next(k for k in FORMATS if k in path.name)
        program = z.read("coppice/bin/coppice" + (".exe" if kind == "win_amd64" else ""))

    magic, at, processor = FORMATS[kind]
    if not program.startswith(magic) or kind == "win_amd64" and program[PE : PE + 4] != b"PE\0\0" or program[at : at + len(processor)] != processor:
        raise SystemExit(f"{path.name}: its program is not one for {kind}: it begins with {program[:24].hex()}")
    if version.encode() not in program:
        raise SystemExit(f"{path.name}: its program does not have the version {version}")
    return ran(path, program, kind, version)


def ran(path: Path, program: bytes, kind: str, version: str) -> str:
    """Runs the program, if anything here can."""
    here = platform.machine() == kind and sys.platform == "linux"
    emulator = None if here else shutil.which(f"qemu-{kind}") or shutil.which(f"qemu-{kind}-static")
    if not here and emulator is None:
        return f"{len(program) >> 20} MiB for {kind}, not run here"
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/coppice"
        Path(file).write_bytes(program)
        os.chmod(file, 0o755)
        command = ([emulator] if emulator else []) + [file, "--version"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if said.returncode != 0 or version not in said.stdout:
        raise SystemExit(f"{path.name}: --version ends with {said.returncode} and says {said.stdout}{said.stderr}")
    return f"{len(program) >> 20} MiB for {kind}, runs{' under ' + os.path.basename(emulator) if emulator else ''}"


def main() -> int:
    version, *wheels = sys.argv[1:]
    if not wheels:
        raise SystemExit("no wheel")
    for wheel in map(Path, sorted(wheels)):
        print(f"{wheel.name}: {check(wheel, version)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
