package show

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/program/tables"
	"coppice/launcher/internal/doctor"
)

// Checks writes what the doctor found, and the commands that fix it.
func (w Printer) Checks(r *doctor.Report) {
	t := w.Table("", "check", "finding").Wrap(3)

	alike := map[doctor.Severity]int{} // permissions, one row for all that nothing has to be done about
	for _, f := range r.Sorted() {
		if f.Check == "right" && f.Fix == "" && (f.Verdict == doctor.OK || f.Verdict == doctor.NotChecked) {
			alike[f.Verdict]++
			continue
		}
		finding := f.Where + ": " + f.What
		if strings.HasPrefix(f.What, f.Where+":") { // an error in a file, with line and column
			finding = f.What
		}
		t.Row(tables.Standing(f.Verdict), f.Check, finding)
	}
	for _, v := range []doctor.Severity{doctor.OK, doctor.NotChecked} {
		if n := alike[v]; n > 0 {
			t.Row(tables.Standing(v), "right", english.Plural(n, "permission", "")+
				" of terraform/iam.yaml; --json lists them")
		}
	}
	t.Print()

	told := map[string]bool{}
	for _, f := range r.Sorted() { // outside the table, where they can be copied; one command may fix several
		if f.Fix != "" && !told[f.Fix] {
			told[f.Fix] = true
			w.printf("# %s, %s: %s\n%s\n", f.Verdict, f.Check, f.Where, f.Fix)
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
	w.printf("%s\n", strings.Join(counts, ", "))
}
