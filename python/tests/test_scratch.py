"""What cannot be read whole is refused, and what a killed process leaves is removed."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import pyarrow.fs as pafs

from coppice import _program, _registry
from coppice.errors import CorruptError


@unittest.skipIf(os.name == "nt", "Windows has no pipes or devices among its files")
class Scratch(unittest.TestCase):
    def test_pipes_and_devices(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/pipe")
            os.symlink("/dev/zero", f"{folder}/device")
            local = pafs.LocalFileSystem()
            for store in (
                _registry.Folder(folder),
                _registry.Bucket(local, folder, folder),
                _registry.Bucket(pafs.SubTreeFileSystem(folder, local), "", folder),
            ):
                for name in ("pipe", "device"):
                    with self.assertRaisesRegex(CorruptError, f"{name}: not a file"):
                        store.read(name, 1 << 20)

    def test_a_killed_process(self):
        hold = "import time; from coppice import _program\nwith _program.scratch() as s: print(s, flush=True); time.sleep(60)"
        with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True) as p:
            theirs = pathlib.Path(p.stdout.readline().strip())
            with _program.scratch() as mine:
                self.assertTrue(theirs.is_dir(), "a folder in use was removed")
                p.send_signal(signal.SIGKILL)
                p.wait()
                self.assertTrue(theirs.is_dir())
                # the system may take a moment to unlock what a killed process held
                end = time.monotonic() + 10
                while theirs.exists() and time.monotonic() < end:
                    with _program.scratch():
                        self.assertTrue(os.path.isdir(mine))
                self.assertFalse(theirs.exists(), "the folder of a killed process is left")
        self.assertFalse(os.path.exists(mine))


if __name__ == "__main__":
    unittest.main()
