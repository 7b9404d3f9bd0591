package nights

import (
	"testing"

	"coppice/internal/must"
)

// TestLeakOfUsedColumns: Leak names a column with an AUC of 1 only if the model uses it. A table may have such a column
// for another purpose, such as the revenue that a metric counts.
func TestLeakOfUsedColumns(t *testing.T) {
	p := Profile{Columns: []Column{{Name: "revenue", AUC: 1}, {Name: "age", AUC: 0.8}}}
	used := map[string]bool{"age": true}
	must.Equal(t, p.Leak(func(column string) bool { return used[column] }), "", "a model of age")
	used["revenue"] = true
	const want = `column "revenue" alone ranks the label with an AUC of 1.0000`
	must.Equal(t, p.Leak(func(column string) bool { return used[column] }), want, "a model of revenue")
}
