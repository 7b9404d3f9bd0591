package dataset

import "fmt"

// mostGroups bounds the groups that SplitsOfGroups remembers, and so its memory.
const mostGroups = 1 << 20

// Divided says how many groups have rows in both train and valid.
type Divided struct {
	Groups int `json:"groups"`
	// Of is how many groups were looked at, the first ones of the table. In a table in the order of time, the first
	// million may all be in train; groups on the border between train and valid are not counted then.
	Of int `json:"of"`
}

// String returns the numbers for messages, such as 12 of 5000, or 12 of the first 1048576.
func (d Divided) String() string {
	first := ""
	if d.Of == mostGroups {
		first = "the first "
	}
	return fmt.Sprintf("%d of %s%d", d.Groups, first, d.Of)
}

// SplitsOfGroups remembers for each group the splits that it has rows in: bit i stands for split i of SplitNames.
type SplitsOfGroups map[uint64]uint8

// Add notes that a group has a row in a split, given by its index in SplitNames. Beyond mostGroups, new groups are
// ignored.
func (s SplitsOfGroups) Add(group uint64, split uint8) {
	if in, known := s[group]; known || len(s) < mostGroups {
		s[group] = in | 1<<split
	}
}

// Divided counts the groups with rows in both train and valid, which are bits 0 and 1. It returns nil if there is none.
func (s SplitsOfGroups) Divided() *Divided {
	d := Divided{Of: len(s)}
	for _, in := range s {
		if in&3 == 3 {
			d.Groups++
		}
	}
	if d.Groups == 0 {
		return nil
	}
	return &d
}
