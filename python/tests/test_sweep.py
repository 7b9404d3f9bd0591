"""Sweeps as tables: written as internal/sweep/WIRE.md has it, in the middle of things and damaged."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import coppice

ID = "night-1"


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


class SweepTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = Path(folder.name)
        plan = {"format": 1, "sweep": ID, "maximize": True, "spec": {"metric": "auc"}}
        plan["trials"] = [{"number": i, "params": {"num_leaves": 10 + i, "learning_rate": 0.1}} for i in range(6)]
        write(self.place / "plans" / f"{ID}.json", plan)
        done = {
            "format": 1,
            "sweep": ID,
            "status": "done",
            "trees": 40,
            "trees_grown": 50,
            "best_iteration": 40,
            "started": "2026-11-21T03:00:00Z",
        }
        done |= {"ended": "2026-11-21T03:01:00.5Z", "usage": {"train_seconds": 12.5, "private_bytes": 1000}}
        for i, score in enumerate([0.7, 0.8, 0.7]):
            write(
                self.trial(i) / "result.json",
                done | {"trial": i, "score": score, "metrics": {"auc": score, "log_loss": 0.1}, "trees": 40 - i},
            )
        write(
            self.trial(3) / "result.json",
            {"format": 1, "sweep": ID, "trial": 3, "status": "failed", "reason": "<b>out of memory</b>"},
        )
        write(self.trial(4) / "claims" / "0", {})
        write(self.trial(0) / "claims" / "0", {})
        write(
            self.trial(1) / "curves" / "0",
            {"format": 1, "sweep": ID, "trial": 1, "first": 1, "every": 2, "scores": [0.1, 0.2, 0.9]},
        )
        write(
            self.trial(1) / "curves" / "1",
            {"format": 1, "sweep": ID, "trial": 1, "first": 5, "every": 1, "scores": [0.3, 0.4]},
        )
        write(self.trial(0) / "curves" / "0", "{")

    def trial(self, number: int) -> Path:
        return self.place / "sweeps" / ID / "trials" / f"{number:04d}"

    def test_tables(self) -> None:
        s = coppice.sweep(ID, self.place)
        frame = s.trials()
        self.assertEqual(list(frame["state"]), ["done", "done", "done", "failed", "running", "waiting"])
        self.assertEqual(frame.loc[1, "score"], 0.8)
        self.assertEqual(frame.loc[5, "params.num_leaves"], 15)
        self.assertEqual((frame.loc[1, "ended"] - frame.loc[1, "started"]).total_seconds(), 60.5)
        self.assertTrue(frame["score"].isna()[3:].all())

        board = s.board()
        self.assertEqual(list(board.index), [1, 2, 0], "best first; of equal scores the fewer trees")
        self.assertEqual(list(board["rank"]), [1, 2, 3])
        self.assertIn("params.num_leaves", board)
        self.assertNotIn("params.learning_rate", board, "it is the same in all trials")
        self.assertEqual(s.curves().values.tolist(), [[1, 1, 0.1], [1, 3, 0.2], [1, 5, 0.3], [1, 6, 0.4]])
        self.assertIn("3 of 6 trials done, not concluded", repr(s))

    def test_concluded(self) -> None:
        write(
            self.place / "sweeps" / ID / "conclusion.json", {"format": 1, "sweep": ID, "outcome": "winner", "trial": 1}
        )
        s = coppice.sweep(self.place / "sweeps" / ID)
        self.assertEqual(s.conclusion["trial"], 1)
        self.assertEqual(list(s.trials()["state"])[4:], ["cancelled", "cancelled"])

    def test_a_trial_waits_at_a_rung(self) -> None:
        write(self.trial(4) / "pauses" / "9", {"format": 1})
        self.assertEqual(coppice.sweep(ID, self.place).trials()["state"][4], "paused")
        write(self.trial(4) / "promotions" / "9", {"format": 1, "sweep": ID, "trial": 4})
        self.assertEqual(coppice.sweep(ID, self.place).trials()["state"][4], "running")

    def test_an_extension_is_refused(self) -> None:
        plan = json.loads((self.place / "plans" / f"{ID}.json").read_text())
        write(self.place / "plans" / f"{ID}.json", plan | {"extends": {"sweep": "night-0"}})
        with self.assertRaisesRegex(coppice.FormatError, "`extend` is gone"):
            coppice.sweep(ID, self.place)

    def test_a_sweep_with_folds_has_configurations(self) -> None:
        plan = json.loads((self.place / "plans" / f"{ID}.json").read_text()) | {
            "folds": {"rounds": [{}, {}]},
        }
        for i, t in enumerate(
            plan["trials"]
        ):  # configurations 0, 1 and 0, 1, then 2, whose second fold is not there, and the refit
            t |= {
                "configuration": [0, 1, 0, 1, 2, 0][i],
                "fold": [1, 1, 2, 2, 1, 0][i],
                "params": {"num_leaves": [10, 11, 10, 11, 12, 10][i]},
            }
        plan["trials"][5] |= {"refit": True}
        write(self.place / "plans" / f"{ID}.json", plan)
        write(
            self.trial(5) / "result.json",
            {"format": 1, "sweep": ID, "trial": 5, "status": "done", "score": 0.7, "trees": 9},
        )
        s = coppice.sweep(ID, self.place)
        frame = s.configurations()
        self.assertEqual(list(frame.index), [0, 2, 1])
        self.assertEqual(list(frame["state"]), ["done", "open", "failed"])
        self.assertEqual(frame.loc[0, ["rank", "folds", "of", "params.num_leaves"]].tolist(), [1, 2, 2, 10])
        self.assertAlmostEqual(frame.loc[0, "mean"], 0.7)
        self.assertAlmostEqual(frame.loc[0, "se"], 0)
        self.assertTrue(frame["rank"].isna()[1:].all())
        self.assertEqual(list(s.board().index), [5], "the refit alone")
        self.assertTrue(s.trials()["configuration"].isna()[5])

    def test_without_folds_there_are_no_configurations(self) -> None:
        with self.assertRaises(coppice.Error):
            coppice.sweep(ID, self.place).configurations()

    def test_open_trials_say_what_was_decided(self) -> None:
        write(self.trial(5) / "decision.json", {"format": 1, "sweep": ID, "trial": 5, "params": {"num_leaves": 99}})
        self.assertEqual(coppice.sweep(ID, self.place).trials().loc[5, "params.num_leaves"], 99)

    def test_a_damaged_result_is_a_failed_trial(self) -> None:
        write(self.trial(2) / "result.json", '{"format": 9}')
        frame = coppice.sweep(ID, self.place).trials()
        self.assertEqual(frame.loc[2, "state"], "failed")
        self.assertIn("cannot be read", frame.loc[2, "reason"])

    def test_hostile_texts_stay_texts(self) -> None:
        plan = json.loads((self.place / "plans" / f"{ID}.json").read_text())
        for t in plan["trials"]:
            t["params"] = {"<script>alert(1)</script>": f"<img src=x onerror=alert({t['number']})>"}
        write(self.place / "plans" / f"{ID}.json", plan)
        html = coppice.sweep(ID, self.place)._repr_html_()
        self.assertNotIn("<script", html)
        self.assertNotIn("<img", html)

    def test_where(self) -> None:
        with mock.patch.dict(os.environ, clear=True), self.assertRaisesRegex(coppice.Error, "COPPICE_SWEEPS_BUCKET"):
            coppice.sweep(ID)
        with self.assertRaises(coppice.NotFoundError):
            coppice.sweep("nobody", self.place)
        for bad in ("../x", "A", "x/y"):
            with self.assertRaises(coppice.Error):
                coppice.sweep(bad, self.place)
        write(self.place / "plans" / "other.json", {"format": 1, "sweep": ID})
        with self.assertRaisesRegex(coppice.CorruptError, "about the sweep"):
            coppice.sweep("other", self.place)


if __name__ == "__main__":
    unittest.main()
