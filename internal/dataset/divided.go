package dataset

import "fmt"

// mostGroups bounds the groups that SplitsOfGroups remembers.
const mostGroups = 1 << 20

// Divided says how many groups have rows in both train and valid.
type Divided struct {
	Groups int `json:"groups"`
	// Of is how many groups were looked at, the first ones of the table: if all of these are in train, which the first
	// million of a table in the order of time may be, those at the border are not counted.
	Of int `json:"of"`
}

func (d Divided) String() string {
	first := ""
	if d.Of == mostGroups {
		first = "the first "
	}
	return fmt.Sprintf("%d of %s%d", d.Groups, first, d.Of)
}

// SplitsOfGroups remembers the splits that a group has rows in, as bits.
type SplitsOfGroups map[uint64]uint8

// Add tells of a row. Splits are numbered like SplitNames.
func (s SplitsOfGroups) Add(group uint64, split uint8) {
	if in, known := s[group]; known || len(s) < mostGroups {
		s[group] = in | 1<<split
	}
}

// Divided counts the groups that are in both train and valid, whose bits are the lowest two; nil if there is none.
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
