"""What cannot be read whole is refused, and what a killed process leaves is removed."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import pyarrow.fs as pafs

PACKAGE = str(pathlib.Path(__file__).resolve().parent.parent)
sys.path.insert(0, PACKAGE)

from coppice import _program, _registry  # noqa: E402
from coppice.errors import CorruptError  # noqa: E402


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

    def test_the_command_imports_little(self):
        # Ctrl-C while numpy and pyarrow are imported is a traceback.
        heavy = "numpy", "pyarrow", "pandas", "sklearn"
        code = f"import sys, coppice._program, coppice\nprint([m for m in {heavy} if m in sys.modules])"
        env = os.environ | {"PYTHONPATH": PACKAGE}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "[]")

    def test_the_command_takes_no_interrupt(self):
        code = "import os, signal\nprint(signal.getsignal(signal.SIGINT) == signal.SIG_DFL)"
        with tempfile.TemporaryDirectory() as folder:
            for name in ("coppice", "other"):
                pathlib.Path(folder, name).write_text(f"import coppice\n{code}")
            env = os.environ | {"PYTHONPATH": PACKAGE}
            run = [subprocess.run([sys.executable, f"{folder}/{n}"], env=env, capture_output=True, text=True).stdout
                   for n in ("coppice", "other")]
        self.assertEqual(run, ["True\n", "False\n"], "Ctrl-C ends the command at once, and interrupts other scripts")

    def test_an_interrupted_command(self):
        with unittest.mock.patch.object(_program, "path") as found:
            found.side_effect = KeyboardInterrupt
            with self.assertRaises(SystemExit) as end:
                _program.main()
        self.assertEqual(end.exception.code, 130)

    def test_a_killed_process(self):
        hold = "import time; from coppice import _program\nwith _program.scratch() as s: print(s, flush=True); time.sleep(60)"
        env = os.environ | {"PYTHONPATH": PACKAGE}
        with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True, env=env) as p:
            said = p.stdout.readline().strip()
            self.assertTrue(said, "the other process made no folder")
            theirs = pathlib.Path(said)
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

    def test_a_process_that_begins_meanwhile(self):
        import fcntl

        lock = fcntl.flock

        def other_first(file, how):
            with unittest.mock.patch("fcntl.flock", lock), _program.scratch():
                lock(file, how)

        with unittest.mock.patch("fcntl.flock", other_first), _program.scratch() as mine:
            self.assertTrue(os.path.isdir(mine), "a folder that is being made was removed")


if __name__ == "__main__":
    unittest.main()
