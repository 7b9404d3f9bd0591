package cli

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"coppice/launcher/internal/predict"
)

// showInputs prints the counts for columns of ids, and for others with missing values, beside the usual ones.
func (w *World) showInputs(r *predict.Result) {
	t := w.newTable("column", "missing", "usually", "unseen", "usually", "rare", "usually")
	shown := 0
	for i := range r.Inputs {
		in := &r.Inputs[i]
		if in.Unseen == nil && in.Missing.Now == 0 && (in.Missing.Usual == nil || *in.Missing.Usual == 0) {
			continue
		}
		shown++
		row := table.Row{in.Column}
		for _, s := range []*predict.Share{&in.Missing, in.Unseen, in.Rare} {
			now, usual := "", ""
			if s != nil {
				now = percent(s.Now)
			}
			if s != nil && s.Usual != nil {
				usual = percent(*s.Usual)
			}
			row = append(row, now, usual)
		}
		t.AppendRow(row)
	}
	if shown > 0 {
		t.Render()
	}

	for _, text := range r.Warnings() {
		fmt.Fprintf(w.Err, "warning: %s\n", text)
	}
}
