"""Sweeps as tables: what was tried, how it went, who is ahead. internal/sweep/WIRE.md is the counterpart."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from ._strict import parse_json
from ._registry import Store, open_store
from .errors import CorruptError, Error, FormatError, NotFoundError

if TYPE_CHECKING:
    import pandas

MAX_PLAN = 64 << 20
MAX_RESULT = 4 << 20
_ID = re.compile(r"[a-z][a-z0-9-]{0,62}\Z")
_PLACE = re.compile(r"^(?P<place>.*?)/?(?:sweeps/(?P<folder>[^/]+)/?|plans/(?P<plan>[^/]+)\.json)$")
_TRIAL = re.compile(r"sweeps/[^/]+/trials/([0-9]{4,})/(claims|curves|releases|pauses|promotions)/(0|[1-9][0-9]*)\Z")
_SINGLE = re.compile(r"sweeps/[^/]+/trials/([0-9]{4,})/(result|decision)\.json\Z")


class Sweep:
    """A sweep as it stood when it was read.

    Attributes:
        id: the sweep's id.
        plan: what was planned, as in plans/ID.json.
        conclusion: how it ended, as in conclusion.json; None as long as it has not.
        metric: by which trials are ranked.
        maximize: whether a higher score is better.
    """

    def __init__(self, store: Store, sweep_id: str) -> None:
        self._store = store
        self.id = sweep_id
        self._root = f"sweeps/{sweep_id}/"
        self.plan = self._record(f"plans/{sweep_id}.json", MAX_PLAN)
        self.conclusion: dict[str, Any] | None = None
        try:
            self.conclusion = self._record(self._root + "conclusion.json", MAX_RESULT)
        except NotFoundError:
            pass
        spec, trials = self.plan.get("spec"), self.plan.get("trials")
        if not isinstance(spec, dict) or not isinstance(trials, list) or not trials:
            raise CorruptError(f"{store.describe(f'plans/{sweep_id}.json')}: a plan without spec or trials")
        self.metric, self.maximize = str(spec.get("metric")), bool(self.plan.get("maximize"))
        if self.plan.get("extends") is not None:
            raise FormatError(f"{store.describe(f'plans/{sweep_id}.json')}: `extend` is gone, and with it its sweeps")
        self._list()

    def __repr__(self) -> str:
        done = sum(r.get("status") == "done" for r in self._results.values())
        how = self.conclusion.get("outcome") if self.conclusion else "not concluded"
        return f"<coppice.Sweep {self.id}: {done} of {len(self.plan['trials'])} trials done, {how}>"

    def _record(self, name: str, limit: int) -> dict[str, Any]:
        shown = self._store.describe(name)
        record = parse_json(self._store.read(name, limit).to_pybytes(), shown, limit)
        if not isinstance(record, dict) or type(record.get("format")) is not int or record["format"] != 1:
            raise FormatError(f"{shown}: no JSON object of format 1")
        if record.get("sweep") != self.id:
            raise CorruptError(f"{shown}: it is about the sweep {str(record.get('sweep'))[:60]!r}")
        return record

    def _list(self) -> None:
        self._results: dict[int, dict[str, Any]] = {}
        self._decided: dict[int, dict[str, Any]] = {}
        self._claims: dict[int, set[int]] = {}
        self._released: dict[int, set[int]] = {}
        self._curves: dict[int, list[int]] = {}
        self._paused: dict[int, set[int]] = {}
        self._promoted: dict[int, set[int]] = {}
        sets = {
            "claims": self._claims,
            "releases": self._released,
            "pauses": self._paused,
            "promotions": self._promoted,
        }
        known = {t.get("number") for t in self.plan["trials"] if isinstance(t, dict)}
        for name in self._store.list(self._root + "trials"):
            if (m := _SINGLE.search(name)) and int(m[1]) in known:
                number = int(m[1])
                if m[2] == "decision":
                    self._decided[number] = self._lenient(name)
                else:
                    self._results[number] = self._lenient(name)
            elif (m := _TRIAL.search(name)) and int(m[1]) in known:
                number, claim = int(m[1]), int(m[3])
                if m[2] == "curves":
                    self._curves.setdefault(number, []).append(claim)
                else:
                    sets[m[2]].setdefault(number, set()).add(claim)

    def _lenient(self, name: str) -> dict[str, Any]:
        """A damaged result means a failed trial, to every reader."""
        try:
            return self._record(name, MAX_RESULT)
        except CorruptError as e:
            return {"status": "failed", "reason": f"what it left cannot be read: {e}"}

    def _state(self, number: int) -> str:
        if number in self._results:
            return str(self._results[number].get("status"))
        if self.conclusion is not None:
            return "cancelled"
        pauses = self._paused.get(number, set())
        if pauses and max(pauses) not in self._promoted.get(number, set()):
            return "paused"
        claims = self._claims.get(number, set())
        return "running" if claims and max(claims) not in self._released.get(number, set()) else "waiting"

    def trials(self) -> pandas.DataFrame:
        """One row for each planned trial, by number: its state (done, stopped, failed, timed_out,
        cancelled, running, paused, waiting), why it ended, its score, metrics.NAME on valid,
        params.NAME, trees, times and memory. What is not known is missing. Of a sweep with folds
        each trial is one fold, from 1, of one configuration; the refit is fold 0 of none."""
        pd = _pandas()
        rows = []
        for t in self.plan["trials"]:
            number = t["number"]
            r = self._results.get(number, {})
            usage = r.get("usage") or {}
            done = r.get("status") == "done"
            row: dict[str, Any] = {
                "trial": number,
                "state": self._state(number),
                "reason": r.get("reason", ""),
                "score": r.get("score") if done else None,
            }
            row |= {
                "trees": r.get("trees"),
                "trees_grown": r.get("trees_grown"),
                "best_iteration": r.get("best_iteration"),
                "claims": len(self._claims.get(number, ())),
            }
            row |= {"leaves": r.get("leaves"), "model_bytes": (r.get("model") or {}).get("bytes")}
            row |= {
                "started": r.get("started"),
                "ended": r.get("ended"),
                "train_seconds": usage.get("train_seconds"),
                "private_bytes": usage.get("private_bytes"),
            }
            row |= (
                {"configuration": None if t.get("refit") else t.get("configuration", 0), "fold": t.get("fold", 0)}
                if self.plan.get("folds")
                else {}
            )
            row |= {f"metrics.{k}": v for k, v in sorted((r.get("metrics") or {}).items())} if done else {}
            params = r.get("params") or self._decided.get(number, {}).get("params") or t.get("params") or {}
            row |= {f"params.{k}": v for k, v in sorted(params.items())}
            rows.append(row)
        frame = pd.DataFrame(rows)
        for column in ("started", "ended"):
            frame[column] = pd.to_datetime(frame[column], utc=True, format="ISO8601")
        for column in (
            "trees",
            "trees_grown",
            "best_iteration",
            "leaves",
            "model_bytes",
            "private_bytes",
            *(("configuration",) if "configuration" in frame else ()),
        ):
            frame[column] = frame[column].astype("Int64")
        for column in ("score", "train_seconds"):
            frame[column] = frame[column].astype("float64")
        return frame.set_index("trial")

    def configurations(self) -> pandas.DataFrame:
        """Of a sweep with folds, one row for each configuration, best first: rank, its state (done,
        open, dropped, failed), the mean of its folds' scores with its standard error, how many
        folds have one, of how many, and params.NAME. Only those that are done have a rank."""
        if not self.plan.get("folds"):
            raise Error(
                f"{self.id}: a sweep without folds, whose trials are its configurations; see trials() and board()"
            )
        pd = _pandas()
        frame = self.trials()
        rows = []
        for number, of in frame[frame["fold"] > 0].groupby("configuration"):
            state, scores = "done", of["score"].dropna()
            for s in of["state"]:
                if s in ("waiting", "running"):
                    state = "open" if state == "done" else state
                elif s != "done" and state in ("done", "open"):
                    state = "dropped" if s == "stopped" else "failed"
            row = {
                "configuration": number,
                "state": state,
                "mean": scores.mean(),
                "se": scores.sem(),
                "folds": len(scores),
                "of": len(of),
            }
            rows.append(row | {c: of[c].iloc[0] for c in of.columns if c.startswith("params.")})
        out = pd.DataFrame(rows)
        out["_place"] = out["state"].map({"done": 0, "open": 1, "dropped": 2, "failed": 3}.get)
        out["_loss"] = (-out["mean"] if self.maximize else out["mean"]).where(out["state"] == "done", -out["folds"])
        out = (
            out.sort_values(["_place", "_loss", "configuration"])
            .drop(columns=["_place", "_loss"])
            .set_index("configuration")
        )
        out.insert(
            0, "rank", pd.array([i + 1 if s == "done" else None for i, s in enumerate(out["state"])], dtype="Int64")
        )
        return out

    def board(self) -> pandas.DataFrame:
        """The trials that are done, best first by the (first) metric as the leaderboard has them:
        rank, score, trees, and the parameters that differ. Of a sweep with folds this is the refit
        alone: scores of different folds do not compare, and configurations() has their means."""
        frame = self.trials()
        frame = frame[(frame["state"] == "done") & (frame["fold"] == 0 if "fold" in frame else True)].copy()
        frame["_loss"] = -frame["score"] if self.maximize else frame["score"]
        # A final training is last: its score is that of the trial that it trains again.
        frame["_again"] = [not self.plan.get("folds") and bool(self.plan["trials"][t].get("refit")) for t in frame.index]
        frame = frame.reset_index().sort_values(["_again", "_loss", "trees", "trial"]).set_index("trial")
        frame.insert(0, "rank", range(1, len(frame) + 1))
        params = [c for c in frame.columns if c.startswith("params.") and frame[c].astype(str).nunique() > 1]
        metrics = [c for c in frame.columns if c.startswith("metrics.")]
        return frame[["rank", "score", "trees", "train_seconds", *metrics, *params]]

    def curves(self) -> pandas.DataFrame:
        """The learning curves: trial, tree and score on valid, joined where a trial went on from a checkpoint."""
        rows: list[tuple[int, int, float]] = []
        for number in sorted(self._curves):
            before, points = None, []
            for claim in sorted(
                self._curves[number], reverse=True
            ):  # from its first tree on, what a newer claim says counts
                try:
                    c = self._record(f"{self._root}trials/{number:04d}/curves/{claim}", MAX_RESULT)
                    first, every, scores = int(c["first"]), int(c["every"]), [float(s) for s in c.get("scores") or []]
                except (CorruptError, KeyError, TypeError, ValueError):
                    continue  # there is none of that claim
                points += [
                    (number, first + i * every, s)
                    for i, s in enumerate(scores)
                    if before is None or first + i * every < before
                ]
                if scores:
                    before = first if before is None else min(before, first)
            rows += sorted(points)
        return (
            _pandas()
            .DataFrame(rows, columns=["trial", "tree", "score"])
            .astype({"trial": "int64", "tree": "int64", "score": "float64"})
        )

    def _repr_html_(self) -> str:
        return self.board().to_html(max_rows=50, escape=True)


def sweep(
    name: str | os.PathLike[str],
    where: str | os.PathLike[str] | None = None,
    *,
    filesystem: pafs.FileSystem | None = None,
) -> Sweep:
    """Reads a sweep.

    Args:
        name: the sweep's id, or a path to its folder: gs://BUCKET/sweeps/ID, or on this machine
          PLACE/sweeps/ID. where: the place in which plans/ and sweeps/ lie, a folder or
          gs://BUCKET; without it, the path's, or the bucket of COPPICE_SWEEPS_BUCKET. filesystem: a
          pyarrow file system for other places.
    """
    text = os.fspath(name).replace(os.sep, "/")
    if where is None and (m := _PLACE.match(text)):
        where, text = m["place"] or ".", m["folder"] or m["plan"]
    if where is None:
        bucket = os.environ.get("COPPICE_SWEEPS_BUCKET", "")
        if not bucket:
            raise Error(
                f"{text}: where does it lie? Give where=, a path that ends with sweeps/ID, or set COPPICE_SWEEPS_BUCKET"
            )
        where = bucket if "://" in bucket or os.path.isabs(bucket) else "gs://" + bucket
    if not _ID.match(text):
        raise Error(f"{text[:100]!r} is no id of a sweep: from a to z, 0 to 9 and '-', beginning with a letter")
    return Sweep(open_store(where, filesystem), text)


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError as e:
        raise Error("sweeps are DataFrames: pip install pandas") from e
    return pd
