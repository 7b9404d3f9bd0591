package show

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/page"
	"coppice/internal/program/tables"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/clean"
	"coppice/launcher/internal/sweepview"
)

// Sweeps writes a line for each model that asks a person to do something (its Todo), a line for each running sweep that
// asks for something by now (Asks.Due), and a table of all sweeps. now is for their age. Without any sweep it says how
// to start one.
func (w Printer) Sweeps(x *page.Index, now time.Time) {
	if len(x.Sweeps) == 0 {
		w.Printf("no sweep yet: `launcher fit TABLE --label COLUMN` or `launcher sweep SWEEP.yaml` starts one\n")
		return
	}
	t := w.Table("sweep", "planned", "trials", "state", page.OwnScore, "registered", "dataset").
		Least("dataset", "trials", "registered", "planned")
	for _, m := range x.Models {
		if m.Last != nil && m.Todo().Verdict != "" { // what else asks has a line of its own
			w.Printf("%s: %s\n", m.Name, m.Todo())
		}
	}
	for _, l := range x.Sweeps {
		if l.Running && l.Asks.Due() {
			w.Printf("%s: %s\n", l.ID, l.Asks)
		}
		registered, planned, score, state := "", "", "", l.Word()
		if l.State == page.Unreadable {
			state += ": " + l.Why
		}
		if l.Version > 0 {
			registered = fmt.Sprintf("%s version %d", l.Model, l.Version)
		}
		if !l.Planned.IsZero() {
			planned = humanize.RelTime(l.Planned, now, "ago", "from now")
		}
		if l.Score != nil {
			score = l.Metric + " " + sweep.Score(*l.Score, l.SE)
		}
		t.Row(l.ID, planned, l.Trials, tables.Standing(state), score, registered, l.Dataset)
	}
	t.Print()
}

// Month writes which version of a model is live at the time now and since when, what there is to do, a table of its
// nights, and a note for each that cannot be read. If a person has moved the champion since the last night, or if no
// night is counted, it says in the first line which version is live and who moved it, in place of the gate's standing.
func (w Printer) Month(m *page.Month, now time.Time) {
	last := m.Last()
	movedSince := m.Move.By != registry.ByGate && (last == nil || m.Move.At.After(last.At)) // by a person
	head := champion(m.Standing.Model, m.Move)
	if m.Standing.Champion > 0 && m.Standing.Nights > 0 && !movedSince {
		head = m.Standing.Text(now)
	}
	w.Printf("%s\n", head)
	if m.Todo != "" {
		w.Printf("%s\n", m.Todo)
	}
	header := []any{"night (UTC)", "data", "dataset", "new version", "verdict", "live after", "its age", "why"}
	t := w.Table(header...).Wrap(len(header)).Least("dataset", "data", "its age") // "why", the last, is wrapped
	for _, n := range m.Nights {
		age := "" // no version is live after the night
		switch {
		case n.Age > 0:
			age = english.Plural(n.Age, "day", "")
		case n.Live > 0:
			age = "<1 day"
		}
		t.Row(n.Night+n.Clock, n.Data, n.Dataset, VersionOf(n.Version), tables.Standing(n.Word()), VersionOf(n.Live),
			age, FirstLine(n.Why))
	}
	t.Print()
	for _, text := range m.Unread {
		w.Printf("note: %s\n", text)
	}
}

// champion says which version is live after a move of the champion and, if a person has moved it, who and why.
func champion(model string, e registry.Event) string {
	if e.To == 0 {
		return model + " has no champion"
	}
	return fmt.Sprintf("%s version %d is live", model, e.To) + byHand(e)
}

// byHand ends a sentence about the move e of the champion: who made it, and why. It is "" if the gate made it.
func byHand(e registry.Event) string {
	if e.By == registry.ByGate {
		return ""
	}
	return fmt.Sprintf(", by hand (%s: %s)", e.By, FirstLine(e.Why))
}

// Datasets writes a list of dataset versions.
func (w Printer) Datasets(all []sweepview.ListedDataset) {
	if len(all) == 0 {
		w.Printf("no dataset yet: `launcher stage DATASET.yaml` makes one\n")
		return
	}
	t := w.Table("dataset", "version", "rows", "size", "staged (UTC)", "table").Least("size", "staged (UTC)")
	for _, l := range all {
		staged, ref := "", l.Version
		if !l.Staged.IsZero() {
			staged = clock(l.Staged)
		}
		if l.Latest {
			ref += " (latest)"
		}
		t.Row(l.Dataset, ref, humanize.Comma(int64(l.Rows)), humanize.IBytes(uint64(l.Bytes)), staged,
			tables.Standing(cmp.Or(l.Word, l.State)))
	}
	t.Print()
}

// Removable writes a table of what is in the buckets: whether each item can be removed and why, or what keeps it. end
// is the format of the last line, with one %s for the size of what can be removed; it says whether that was removed.
func (w Printer) Removable(items []clean.Item, end string) {
	var free int64
	const because = 6 // the column whose text is wrapped
	t := w.Table("", "name", "bytes", "newest", "removable", "because").Wrap(because).Least("newest")
	for _, i := range items {
		removable, newest, why := "-", "-", strings.Join(i.HeldBy, "; ")
		if i.MayGo() {
			removable, why = "yes", i.Why
			free += i.Bytes
		}
		if !i.Newest.IsZero() {
			newest = i.Newest.Format(time.DateOnly)
		}
		t.Row(i.Kind, i.Name, humanize.IBytes(uint64(i.Bytes)), newest, removable, why)
	}
	t.Print()
	w.Printf(end, humanize.IBytes(uint64(free)))
}

// Verified writes what was checked of a model, and the SHA-256 of the last move (head) of each alias's history.
func (w Printer) Verified(v *registry.Verification) {
	w.Printf("%s: %s, %s, %s\n", v.Model, english.Plural(v.Versions, "version", ""),
		english.Plural(v.Files, "file", ""), humanize.IBytes(uint64(v.Bytes)))
	t := w.Table("alias", "points at", "moves")
	for _, h := range v.Heads {
		t.Row(h.Alias, VersionOf(h.Version), h.Sequence)
	}
	t.Print()
	for _, h := range v.Heads {
		w.Printf("head of %s %s: %s\n", v.Model, h.Alias, h.SHA256)
	}
}

// History writes the events of a model.
func (w Printer) History(events []registry.Event) {
	t := w.Table("when (UTC)", "what", "version", "by", "why")
	for _, e := range events {
		to := VersionOf(e.To)
		if e.From > 0 {
			to = fmt.Sprintf("%d -> %s", e.From, to)
		}
		t.Row(clock(e.At), strings.TrimSpace(string(e.Kind)+" "+e.Alias), to, e.By, FirstLine(e.Why))
	}
	t.Print()
}

// ListedVersion is a version with the aliases that point at it.
type ListedVersion struct {
	registry.Version
	Night   string   `json:"night"` // as sweepview.NameNight
	Aliases []string `json:"aliases"`
	Metric  string   `json:"metric,omitempty"`   // that chose it
	SE      float64  `json:"score_se,omitempty"` // its standard error on test; 0 if unknown
}

// Listed returns the versions with their aliases.
func Listed(versions []registry.Version, aliases []registry.Alias) []ListedVersion {
	listed := make([]ListedVersion, len(versions))
	for i, v := range versions {
		listed[i] = ListedVersion{Version: v, Night: sweepview.NameNight(sweep.ID(v.Info.Labels["sweep"])),
			Aliases: []string{}}
		for _, a := range aliases {
			if a.Version == v.Number {
				listed[i].Aliases = append(listed[i].Aliases, a.Name)
			}
		}
	}
	return listed
}

// Versions writes a list of a model's versions.
func (w Printer) Versions(listed []ListedVersion, now time.Time) {
	t := w.Table("version", "alias", page.OwnScore, "age", "night", "sweep", "dataset").Least("sweep", "dataset")
	for _, v := range listed {
		t.Row(v.Number, strings.Join(v.Aliases, " "), Score(v.Info.Metrics, v.Metric, v.SE),
			Age(v.Info.At, now), v.Night, v.Info.Labels["sweep"], v.Info.Labels["dataset"])
	}
	t.Print()
}

// Score returns "NAME VALUE" of the metric that chose a version, with its standard error se (0 if unknown). If that
// metric is not recorded, it is the first of those that most sweeps optimise or, without any of these, the first by
// name. It is "" if there are no metrics at all.
func Score(metrics map[string]float64, chosenBy string, se float64) string {
	found := append(measured(metrics, se, chosenBy, "log_loss", "multi_logloss", "rmse", "ndcg@10"), "")
	return found[0] // the "" that was added, if there are no metrics
}

// Age is how long ago something was.
func Age(at, now time.Time) string { return strings.TrimSpace(humanize.RelTime(at, now, "", "ahead")) }

// VersionOf formats the number of a version that may not exist.
func VersionOf(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
