package draft

import (
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/gbt"
)

// listIDs lists the columns of numbers that are names: those asked for, and those that are called ids. A column that
// splits the rows is no feature.
//
// Numbers are often given in an order that says something, such as where or when a user was met. In tables that are
// small enough for one more column to cost little, whole numbers stay numbers, and have the statistics of ids beside
// them: measured to pay for classes, and not for values to predict (docs/LAB.md). By time, tomorrow's ids are new.
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

// Rows of a table whose ids also stay numbers. With fewer, what an order says is mostly chance.
const (
	leastNumbered = 1500
	mostNumbered  = 200_000
)

// isID reports whether the column holds numbers that are named like ids and repeat, with a point as GA4 writes them.
func (c *column) isID() bool {
	return ingest.NamedID(c.Name) && !c.texts && c.Type != dataset.Time && c.Type != dataset.Bool &&
		c.distinct.n() > 2 && c.present >= idRepeats*c.distinct.n()
}

// idRepeats is how often values of an id have to repeat in the first rows: a number for each row is no id to learn
// from.
const idRepeats = 2
