package draft

import (
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/gbt"
)

// listIDs lists, as categorical, the columns of numbers that are names rather than quantities: those asked for, and
// those that are named like ids, which it reports. drop are columns that are no features, and so are those with a role.
//
// Numbers of ids are often given in an order that says something, such as where or when a user was met. So in tables
// that are small enough for another column to cost little, whole numbers are listed as numbered: they stay numbers, and
// have the statistics of ids as well. That was measured to pay for classes, and not for numbers to predict
// (docs/LAB.md). In a split by time tomorrow's ids are new, so it is not done there, and neither where rows of a group
// are ordered. Ids that are not plain whole numbers, or at most manyLevels different ones, are categorical in any
// table.
func (d *Draft) listIDs(q Request, s *seen, drop []string, objective string) (categorical, numbered []string) {
	var found []string
	ordered := !d.byTime && q.Group == "" && s.rows >= leastNumbered && s.rows <= mostNumbered &&
		(objective == binaryObjective || gbt.Classes(objective))
	for _, c := range s.columns {
		roles := []string{q.Label, q.Weight, q.Group, d.splitBy}
		switch {
		case !c.isID() || slices.Contains(slices.Concat(q.Categorical, drop, roles), c.Name):
		case !ordered || c.odd || c.distinct.n() <= manyLevels:
			found = append(found, c.Name)
		default:
			numbered = append(numbered, c.Name)
		}
	}
	if len(found) > 0 {
		d.found("ids", "%s: integers named like IDs, treated as categories", strings.Join(found, ", "))
	}
	if len(numbered) > 0 {
		d.found("ids", "%s: integers named like IDs, encoded as IDs and kept as numbers", strings.Join(numbered, ", "))
	}
	return append(slices.Clone(q.Categorical), found...), numbered
}

// Rows of a table in which ids also stay numbers. With fewer, what their order says is mostly chance; with more,
// another column costs too much.
const (
	leastNumbered = 1500
	mostNumbered  = 200_000
)

// isID reports whether the column holds numbers that are named like ids and repeat. The numbers may be written with a
// point, as GA4 writes them.
func (c *column) isID() bool {
	return ingest.NamedID(c.Name) && !c.texts && c.Type != dataset.Time && c.Type != dataset.Bool &&
		c.distinct.n() > 2 && c.present >= idRepeats*c.distinct.n()
}

// idRepeats is how many rows a value of an id must have on average in the rows that were read. From an id that each row
// has for itself nothing can be learnt.
const idRepeats = 2
