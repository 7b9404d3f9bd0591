package dataset

import "fmt"

// HintDivided is the code of a warning that a group's rows are in several splits.
const HintDivided = "divided"

// mostGroups bounds the groups that Divided remembers. If some of a table are divided, some of the first ones are.
const mostGroups = 1 << 20

// Divided counts the groups that have rows in several splits.
type Divided struct {
	first   map[uint64]uint8    // a group's split
	divided map[uint64]struct{} // groups that have another, too
}

// Add tells of a row.
func (d *Divided) Add(group uint64, split uint8) {
	if d.first == nil {
		d.first, d.divided = map[uint64]uint8{}, map[uint64]struct{}{}
	}
	if first, known := d.first[group]; known && first != split {
		d.divided[group] = struct{}{}
	} else if !known && len(d.first) < mostGroups {
		d.first[group] = split
	}
}

// Warnings says what was found of the groups of a column.
func (d *Divided) Warnings(column string) []Warning {
	if len(d.divided) == 0 {
		return nil
	}
	return []Warning{{Code: HintDivided, Column: column, Text: fmt.Sprintf("%d of its %d values have rows in several "+
		"splits: no order of their rows can be learnt. That needs split: {by: hash, key: %s, ...} (launcher fit: "+
		"without --time and --split), or a column that is the same for all rows of a %s",
		len(d.divided), len(d.first), column, column)}}
}
