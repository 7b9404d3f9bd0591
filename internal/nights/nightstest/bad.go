package nightstest

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"coppice/internal/nights"
)

// Kind is a kind of bad night.
type Kind struct {
	Name string
	// Tuned says that thresholds were chosen with this kind in mind; heldOut has the others.
	Tuned bool
	// Harmless says that a model of such a night is hardly worse the next day, so that it may pass: what it costs is in
	// docs/LAB.md.
	Harmless bool
	// Want lists the findings of which one must come first. If it is empty, the file itself must be rejected, or be
	// recognised as the one staged before.
	Want []nights.Code
	// Break turns a good night into a bad one. yesterday is the good night before.
	Break func(rng *rand.Rand, today, yesterday Table) Table
}

// code returns a list of codes, for Want.
func code(c ...nights.Code) []nights.Code { return c }

// place returns the index of a column; -1 if there is none.
func (t Table) place(name string) int { return slices.Index(t.Names, name) }

// clone returns a deep copy of the table. All functions that change a table change such a copy.
func (t Table) clone() Table {
	out := Table{Names: slices.Clone(t.Names), Rows: make([][]string, len(t.Rows))}
	for i, r := range t.Rows {
		out.Rows[i] = slices.Clone(r)
	}
	return out
}

// each returns the table with every value of a column replaced by what change makes of row i and its old value.
func (t Table) each(name string, change func(i int, old string) string) Table {
	out := t.clone()
	at := t.place(name)
	for i := range out.Rows {
		out.Rows[i][at] = change(i, out.Rows[i][at])
	}
	return out
}

// labels returns the table with every label replaced, as by each.
func labels(t Table, change func(i int, old string) string) Table { return t.each("is_click", change) }

// scaleColumn returns the table with all numbers of a column times a factor.
func scaleColumn(t Table, name string, factor float64) Table {
	return t.each(name, func(_ int, old string) string { return scaled(old, factor) })
}

// shifted returns the table with a column's values moved down by a number of rows; the last ones become the first.
func shifted(t Table, name string, by int) Table {
	at := t.place(name)
	return t.each(name, func(i int, _ string) string { return t.Rows[(i+len(t.Rows)-by)%len(t.Rows)][at] })
}

// Moved returns the table with all times later by a duration.
func (t Table) Moved(by time.Duration) Table {
	return t.each("ts", func(_ int, old string) string {
		at, err := time.Parse(time.RFC3339, old)
		if err != nil {
			panic(err) // a bug in this package
		}
		return at.Add(by).Format("2006-01-02T15:04:05.000Z")
	})
}

// within reports whether the hour of row i's time is at least from and less than to.
func within(t Table, i, from, to int) bool {
	hour, err := strconv.Atoi(t.Rows[i][0][11:13]) // as in 2026-10-05T14:03:00.000Z
	return err == nil && hour >= from && hour < to
}

// keepRows returns the table with only the rows of which keep is true.
func keepRows(t Table, keep func(i int) bool) Table {
	out := t.clone()
	out.Rows = nil
	for i, r := range t.Rows {
		if keep(i) {
			out.Rows = append(out.Rows, slices.Clone(r))
		}
	}
	return out
}

// dropColumn returns the table without a column.
func dropColumn(t Table, name string) Table {
	out := t.clone()
	at := t.place(name)
	out.Names = slices.Delete(out.Names, at, at+1)
	for i := range out.Rows {
		out.Rows[i] = slices.Delete(out.Rows[i], at, at+1)
	}
	return out
}

// renameColumn returns the table with the name from of a column replaced by the name to.
func renameColumn(t Table, from, to string) Table {
	out := t.clone()
	out.Names[t.place(from)] = to
	return out
}

// addColumn returns the table with a new column before the label; value returns its value in row i.
func addColumn(t Table, name string, value func(i int) string) Table {
	out := t.clone()
	at := t.place("is_click")
	out.Names = slices.Insert(out.Names, at, name)
	for i := range out.Rows {
		out.Rows[i] = slices.Insert(out.Rows[i], at, value(i))
	}
	return out
}

// busiest returns the id of the campaign with the most rows; of several, the least text.
func busiest(t Table) string {
	counts := map[string]int{}
	at, best := t.place("campaign_id"), ""
	for _, r := range t.Rows {
		id := r[at]
		counts[id]++
		if counts[id] > counts[best] || counts[id] == counts[best] && id < best {
			best = id
		}
	}
	return best
}

// heldOut are the kinds by which no threshold was chosen. They test the thresholds that the other kinds tuned.
var heldOut = []string{
	"labels shuffled", "22 % positive", "labels shifted by one row", "half of the labels missing",
	"a leaking column", "a column missing", "a column times 100", "a column empty", "a column shifted by one row",
	"ids written differently", "gaps filled with zero",
	"500 rows", "half an hour twice", "the clock in another zone", "bots", "yesterday's file again",
	"the evening missing", "yesterday's rows among today's",
	"the last four hours lack 70 % of their clicks", "an exchange's labels inverted", "an exchange's labels shuffled",
	"an exchange clicks five times as often", "every second negative left out",
	"an aggregate that contains a third of tonight's labels", "an exchange without prices",
	"an exchange's prices in cents", "placements of another row in an exchange",
	"a fifth of the countries written differently", "users cut to three characters",
	"the biggest campaign's rows twice", "no desktops", "an exchange's clock in another zone", "bots that click",
	"a join repeats a campaign's rows with other countries", "every second row in another zone",
	"countries in lower case", "sessions that last until after the click",
	"clicks that belong to rows of the day after", "an exchange's bids in another currency",
	"bots that click on one placement", "every click also as a row without one",
	"60 % of the clicks of known users lost", "users' ids exchanged",
}

// harmless are kinds that cost a model less than 1 % of the next day's entropy, and of which 20,000 rows do not show
// enough to tell them from chance.
var harmless = []string{
	"70 % of the biggest campaign's clicks lost", "labels shuffled within the biggest campaign",
	"placements of another row in an exchange", "two campaigns' ids exchanged", "no desktops",
	"the last four hours lack 70 % of their clicks", "a fifth of the negatives left out",
	"30 % of an exchange's negatives left out", "the clicks of an eighth of the users lost",
	"an exchange's bids in another currency", "every click also as a row without one", "users' ids exchanged",
}

// Kinds returns the kinds of bad nights, always in the same order.
func Kinds() []Kind {
	kinds := slices.Concat(badLabels(), badColumns(), badRows(), subtleLabels(), sampledLabels(), subtleValues(),
		subtleRows(), joined())
	for i := range kinds {
		kinds[i].Tuned = !slices.Contains(heldOut, kinds[i].Name)
		kinds[i].Harmless = slices.Contains(harmless, kinds[i].Name)
	}
	return kinds
}

// badLabels returns kinds of nights whose labels alone are wrong.
func badLabels() []Kind {
	return []Kind{
		{Name: "a third of the labels zeroed", Want: code(nights.CodeLabelsLost, nights.CodeLabelRate),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return zeroed(rng, t, 1, func(i int) bool { return i >= len(t.Rows)/3 && i < 2*len(t.Rows)/3 })
			}},
		{Name: "labels shuffled", Want: code(nights.CodeShuffled),
			Break: func(rng *rand.Rand, t, _ Table) Table { return permuted(rng, t, "is_click", every) }},
		{Name: "labels inverted", Want: code(nights.CodeInverted, nights.CodeLabelRate),
			Break: func(_ *rand.Rand, t, _ Table) Table { return invertLabels(t, every) }},
		{Name: "22 % positive", Want: code(nights.CodeLabelRate),
			Break: func(rng *rand.Rand, t, _ Table) Table { return labelled(rng, t, "1", 0.19, every) }},
		{Name: "one campaign's labels lost", Want: code(nights.CodeLabelsLost),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				id := busiest(t)
				return zeroed(rng, t, 1, func(i int) bool { return t.has(i, "campaign_id", id) })
			}},
		{Name: "labels shifted by one row", Want: code(nights.CodeShuffled),
			Break: func(_ *rand.Rand, t, _ Table) Table { return shifted(t, "is_click", 1) }},
		{Name: "the last six hours have no clicks yet", Want: code(nights.CodeLabelsLost),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return zeroed(rng, t, 1, func(i int) bool { return within(t, i, 18, 24) })
			}},
		{Name: "half of the labels missing", Want: code(nights.CodeRows, nights.CodeLabelRate),
			Break: func(rng *rand.Rand, t, _ Table) Table { return partly(rng, t, "is_click", 0.65, to("")) }},
		{Name: "a random third of the clicks lost", Want: code(nights.CodeLabelRate),
			Break: func(rng *rand.Rand, t, _ Table) Table { return zeroed(rng, t, 0.4, every) }},
	}
}

// badColumns returns kinds of nights with a wrong column: new, missing, renamed, in another unit, or with other rows'
// values.
func badColumns() []Kind {
	return []Kind{
		{Name: "a leaking column", Want: code(nights.CodeLeak), Break: func(rng *rand.Rand, t, _ Table) Table {
			at := t.place("is_click")
			return addColumn(t, "dwell_ms", func(i int) string {
				if t.Rows[i][at] == "1" {
					return strconv.Itoa(400 + rng.IntN(9000))
				}
				return strconv.Itoa(rng.IntN(420))
			})
		}},
		{Name: "a column that has begun to leak", Want: code(nights.CodeLeak, nights.CodeDrift),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				return t.where("bid_floor", "is_click", "1", to("0.0100"))
			}},
		{Name: "a column missing", Want: code(nights.CodeColumnMissing),
			Break: func(_ *rand.Rand, t, _ Table) Table { return dropColumn(t, "country") }},
		{Name: "a column renamed", Want: code(nights.CodeColumnRenamed),
			Break: func(_ *rand.Rand, t, _ Table) Table { return renameColumn(t, "placement", "slot") }},
		{Name: "a column times 100", Want: code(nights.CodeScaled),
			Break: func(_ *rand.Rand, t, _ Table) Table { return scaleColumn(t, "price", 100) }},
		{Name: "another currency", Want: code(nights.CodeScaled),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				return scaleColumn(scaleColumn(t, "price", 1.17), "bid_floor", 1.17)
			}},
		{Name: "a column empty", Want: code(nights.CodeEmpty),
			Break: func(rng *rand.Rand, t, _ Table) Table { return partly(rng, t, "country", 1, to("")) }},
		{Name: "a column with one value", Want: code(nights.CodeConstant),
			Break: func(rng *rand.Rand, t, _ Table) Table { return partly(rng, t, "device", 1, to("mobile")) }},
		{Name: "a column shifted by one row", Want: code(nights.CodeScrambled),
			Break: func(_ *rand.Rand, t, _ Table) Table { return shifted(t, "price", 1) }},
		{Name: "two columns exchanged", Want: code(nights.CodeUnseen, nights.CodeLevel, nights.CodeDrift),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				free := renameColumn(t, "placement", "?")
				return renameColumn(renameColumn(free, "country", "placement"), "?", "country")
			}},
		{Name: "ids written differently", Want: code(nights.CodeUnseen, nights.CodeKindChanged, nights.CodeDrift),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				return t.each("user_id", func(_ int, old string) string { return "U-" + old[1:] })
			}},
		{Name: "numbers with their unit", Want: code(nights.CodeKindChanged),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				return t.each("price", func(_ int, old string) string { return old + " EUR" })
			}},
		{Name: "gaps filled with zero", Want: code(nights.CodeDrift, nights.CodeLevel),
			Break: func(rng *rand.Rand, t, _ Table) Table { return partly(rng, t, "price", 0.45, to("0")) }},
		{Name: "half of a column missing", Want: code(nights.CodeMissingValues),
			Break: func(rng *rand.Rand, t, _ Table) Table { return partly(rng, t, "country", 0.5, to("")) }},
	}
}

// badRows returns kinds of nights with wrong rows: too few, too many, repeated, of bots, of another time or another
// day.
func badRows() []Kind {
	return []Kind{
		{Name: "500 rows", Want: code(nights.CodeRows), Break: func(rng *rand.Rand, t, _ Table) Table {
			keep := map[int]bool{}
			for _, i := range rng.Perm(len(t.Rows))[:500] {
				keep[i] = true
			}
			return keepRows(t, func(i int) bool { return keep[i] })
		}},
		{Name: "every row three times", Want: code(nights.CodeRepeatedRows),
			Break: func(_ *rand.Rand, t, _ Table) Table { return t.again(2, every) }},
		{Name: "half an hour twice", Want: code(nights.CodeRepeatedRows), Break: func(_ *rand.Rand, t, _ Table) Table {
			return t.again(1, func(i int) bool { return within(t, i, 14, 15) && t.Rows[i][0][14] < '3' })
		}},
		{Name: "test rows within train", Want: code(nights.CodeSharedRows),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				// Copy the last 5 % of the rows, which are in test, to the middle of the table, which is in train. The
				// overwritten rows keep their times, by which rows are split.
				out := t.clone()
				n := len(t.Rows)
				for i := n * 95 / 100; i < n; i++ {
					out.Rows[i-n/2] = slices.Clone(t.Rows[i])
					out.Rows[i-n/2][0] = t.Rows[i-n/2][0]
				}
				return out
			}},
		{Name: "the clock in another zone", Want: code(nights.CodeClock),
			Break: func(_ *rand.Rand, t, _ Table) Table { return t.Moved(2 * time.Hour) }},
		{Name: "a day too far", Want: code(nights.CodeFuture, nights.CodeClock),
			Break: func(_ *rand.Rand, t, _ Table) Table { return t.Moved(11*24*time.Hour + 5*time.Hour) }},
		{Name: "bots", Want: code(nights.CodeLevel),
			Break: func(rng *rand.Rand, t, _ Table) Table { return bots(rng, t, 0.2, "0") }},
		{Name: "an empty file",
			Break: func(_ *rand.Rand, t, _ Table) Table { return keepRows(t, func(int) bool { return false }) }},
		{Name: "yesterday's file again", Want: code(nights.CodeSameRows),
			Break: func(_ *rand.Rand, _, y Table) Table { return y }},
		{Name: "yesterday's rows in another order", Want: code(nights.CodeSameRows),
			Break: func(rng *rand.Rand, _, y Table) Table {
				out := y.clone()
				rng.Shuffle(len(out.Rows), func(i, j int) { out.Rows[i], out.Rows[j] = out.Rows[j], out.Rows[i] })
				return out
			}},
		{Name: "the evening missing", Want: code(nights.CodeStale), Break: func(_ *rand.Rand, t, _ Table) Table {
			return keepRows(t, func(i int) bool { return !within(t, i, 18, 24) })
		}},
		{Name: "three hours missing", Want: code(nights.CodeGap), Break: func(_ *rand.Rand, t, _ Table) Table {
			return keepRows(t, func(i int) bool { return !within(t, i, 11, 14) })
		}},
		{Name: "yesterday's rows among today's", Want: code(nights.CodeOldRows),
			Break: func(rng *rand.Rand, t, y Table) Table {
				out := t.clone()
				for _, i := range rng.Perm(len(y.Rows))[:len(y.Rows)*2/5] {
					out.Rows = append(out.Rows, slices.Clone(y.Rows[i]))
				}
				return out
			}},
	}
}
