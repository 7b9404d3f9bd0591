package show

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/program/tables"
	"coppice/launcher/internal/doctor"
)

// Checks writes what the doctor found as a table, then each command that fixes something, and how many findings there
// are of each severity.
func (w Printer) Checks(r *doctor.Report) {
	t := w.Table("", "check", "finding").Wrap(3)
	for _, f := range r.Sorted() {
		t.Row(tables.Standing(f.Verdict), f.Check, f.Where+": "+f.What)
	}
	t.Print()

	told := map[string]bool{}
	for _, f := range r.Sorted() { // outside the table, where they can be copied; one command may fix several
		if f.Fix != "" && !told[f.Fix] {
			told[f.Fix] = true
			w.Printf("# %s, %s: %s\n", f.Verdict, f.Check, f.Where)
			w.Command("%s", f.Fix)
		}
	}

	counts := []string{fmt.Sprintf("%d ok", r.Counts[doctor.OK])}
	for _, v := range []doctor.Severity{doctor.Warning, doctor.Problem} {
		if n := r.Counts[v]; n > 0 {
			counts = append(counts, english.Plural(n, string(v), ""))
		}
	}
	if n := r.Counts[doctor.NotChecked]; n > 0 {
		counts = append(counts, fmt.Sprintf("%d not checked", n))
	}
	w.Printf("%s\n", strings.Join(counts, ", "))
}
