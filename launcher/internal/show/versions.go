package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/gbt"
	"coppice/internal/page"
	"coppice/internal/program/tables"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/explain"
	"coppice/launcher/internal/predict"
	"coppice/launcher/internal/reproduce"
)

// Explained writes what a version's predictions are made of: features and, unless each is a column of its own, the
// columns of which they are made. It lists what some tree uses, and counts the other features. final says that the
// model's final training has seen the rows it was explained with, so that they flatter it.
func (w Printer) Explained(name string, r *explain.Report, final bool) {
	base := ""
	if r.Expected != nil {
		base = "; base score (average prediction, raw): " + Number(*r.Expected)
	}
	w.Printf("%s on %s test rows of its night: %s %s%s\n", name, humanize.Comma(int64(r.Rows)), r.Metric,
		Number(r.Value), base)
	if final {
		w.Printf("its final training has seen these rows, so they flatter it; see registry show for the judged model\n")
	}

	// Features that some tree uses.
	header := []any{"feature", "splits", "gain", "contribution", "worth in " + r.Metric, "95 % interval"}
	if r.Classes != nil {
		header = append(header, "moves most")
	}
	t := w.Table(header...).Wrap(1)
	unused := 0
	for _, f := range r.Features {
		if f.Splits == 0 {
			unused++
			continue
		}
		row := []any{f.Name, f.Splits, sweep.Percent(f.Share), Number(f.Contribution), Number(f.Worth),
			Number(f.Low) + " to " + Number(f.High)}
		if r.Classes != nil {
			k := slices.Index(f.ByClass, slices.Max(f.ByClass))
			row = append(row, fmt.Sprintf("%s (%s)", r.Classes[k], Number(f.ByClass[k])))
		}
		t.Row(row...)
	}
	t.Print()
	if unused > 0 {
		w.Printf("not used by any tree: %s\n", english.Plural(unused, "more feature", ""))
	}

	// Columns, unless each is one feature.
	if len(r.Columns) == len(r.Features) {
		return
	}
	t = w.Table("columns", "features", "gain", "contribution together")
	for _, c := range r.Columns {
		if c.Share > 0 {
			t.Row(c.Name, c.Features, sweep.Percent(c.Share), Number(c.Contribution))
		}
	}
	t.Print()
}

// nothing reports whether a share is unknown, or 0 both in the scored table and in the held-out rows.
func nothing(s *predict.Share) bool {
	return s == nil || s.Now == 0 && (s.Usual == nil || *s.Usual == 0)
}

// Inputs writes, for each column of a scored table that has missing, unseen or rare values, their shares and the shares
// in the version's held-out rows. Without such columns it writes nothing.
func (w Printer) Inputs(r *predict.Result) {
	t := w.Table("column", "missing", "held out", "unseen", "held out", "rare", "held out")
	shown := 0
	for i := range r.Inputs {
		in := &r.Inputs[i]
		if nothing(&in.Missing) && nothing(in.Unseen) && nothing(in.Rare) {
			continue
		}
		shown++
		row := []any{in.Column}
		// Unseen and Rare are nil for a column that is none of ids, Usual where the held-out shares are not known.
		for _, s := range []*predict.Share{&in.Missing, in.Unseen, in.Rare} {
			now, usual := "", ""
			if s != nil {
				now = sweep.Percent(s.Now)
			}
			if s != nil && s.Usual != nil {
				usual = sweep.Percent(*s.Usual)
			}
			row = append(row, now, usual)
		}
		t.Row(row...)
	}
	if shown > 0 {
		t.Print()
	}
}

// Reproduced writes which files of a version came out the same when it was trained again.
func (w Printer) Reproduced(v registry.Version, r *reproduce.Report) {
	t := w.Table("file", "registered", "", "").Wrap(4) // the last: where the bytes differ
	for _, f := range r.Files {
		size, verdict := "-", tables.Standing("same bytes")
		if old, ok := v.File(f.Name); ok {
			size = humanize.IBytes(uint64(old.Bytes))
		}
		if !f.Same {
			verdict = "differs"
		}
		t.Row(f.Name, size, verdict, f.Differs)
	}
	t.Print()
}

// VersionDetails is a version with what its files and the registry say about it.
type VersionDetails struct {
	registry.Version
	Aliases    []registry.Alias // of the model
	Events     []registry.Event // of the model, oldest first
	Remarks    registry.Remarks
	Conclusion *sweep.Conclusion // nil if no sweep registered it, or is there
	Metric     string            // that chose it
	Result     sweep.Result      // zero if no sweep registered it
	Report     sweep.Conclusion  // how it was judged, from the version's own report; zero if no sweep registered it
}

// describeLife says for each alias of the model since when it points at the version, or from when to when it last did
// and which version followed. A time that no readable event has is left out. An alias that never pointed at the version
// is not mentioned, except for the champion, of which it says which version that is. now is for "3 days ago".
func (v *VersionDetails) describeLife(now time.Time) string {
	var parts []string
	for _, a := range v.Aliases {
		// The last time that the alias came to the version, and left it. Events are in the order of time, oldest first.
		var since, until time.Time
		next := 0
		for _, e := range v.Events {
			switch {
			case e.Alias != a.Name:
			case e.To == v.Number:
				since = e.At
			case e.From == v.Number:
				until, next = e.At, e.To
			}
		}
		switch ago := humanize.RelTime(since, now, "ago", "from now"); {
		case a.Version == v.Number && !since.IsZero():
			parts = append(parts, fmt.Sprintf("%s since %s (%s)", a.Name, since.Format(time.DateOnly), ago))
		case a.Version == v.Number:
			parts = append(parts, a.Name)
		case !until.IsZero():
			from := ""
			if !since.IsZero() { // else that event cannot be read
				from = " from " + since.Format(time.DateOnly)
			}
			parts = append(parts, fmt.Sprintf("%s%s to %s, then version %s", a.Name, from, until.Format(time.DateOnly),
				VersionOf(next)))
		case a.Name == registry.Champion:
			parts = append(parts, fmt.Sprintf("never the champion, which is version %d", a.Version))
		}
	}
	return strings.Join(parts, "; ")
}

// Version writes whether a version is live, since when, and what the gate said, then what is known of it. A version
// that a person has marked as bad is called bad instead. all also lists its files. now is for the age.
func (w Printer) Version(v VersionDetails, now time.Time, all bool) {
	name, standing := v.Called(), "not live"
	for _, a := range v.Aliases {
		if a.Version == v.Number && a.Name == registry.Champion {
			name, standing = name+" (champion)", "live"
		}
	}
	if bad, ok := v.Remarks.Bad(); ok {
		standing = fmt.Sprintf("bad: %s (%s, %s)", bad.Why, bad.By, bad.At.Format(time.DateOnly))
	}
	gate := ""
	if c := v.Conclusion; c != nil && c.Version == v.Number {
		gate = sweep.VerdictWords(c.Verdict()) + ": " + c.Why()
	}

	// The registry has the metrics on test and the reason of every version, also of one without a report.
	v.Report.Test, v.Report.Reason = v.Info.Metrics, v.Info.Why
	rows := [][2]string{{"model", name}, {"verdict", standing}, {"life", v.describeLife(now)}, {"gate", gate},
		{"registered", fmt.Sprintf("%s UTC (%s) by %s", clock(v.Info.At),
			humanize.RelTime(v.Info.At, now, "ago", "from now"), v.Info.By)},
		{"sweep", v.Info.Labels["sweep"]}, {"trial", v.Info.Labels["trial"]}, {"dataset", v.Info.Labels["dataset"]}}
	rows = append(rows, judged(&v.Report, chosen(v.Result.Params), v.Metric)...)

	var bytes int64
	for _, f := range v.Files {
		bytes += f.Bytes
		if all {
			rows = append(rows, [2]string{f.Name, fmt.Sprintf("%s, sha256 %.16s…", humanize.IBytes(uint64(f.Bytes)),
				f.SHA256)})
		}
	}
	if !all {
		rows = append(rows, [2]string{"files", fmt.Sprintf("%d, %s (--all lists them)", len(v.Files),
			humanize.IBytes(uint64(bytes)))})
	}
	w.Pairs(rows...)
}

// chosen lists the parameters that differ from their defaults, "the defaults" if none does; "" if params are unknown
// (nil).
func chosen(params sweep.Params) string {
	if params == nil {
		return ""
	}
	names := gbt.Changed(params)
	if len(names) == 0 {
		return "the defaults"
	}
	return page.Settings(params, names)
}
