package nightstest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"coppice/internal/nights"
)

// has reports whether row i has a value in the column of that name.
func (t Table) has(i int, name, value string) bool { return t.Rows[i][t.place(name)] == value }

// user returns the number of row i's user, as in u123.
func (t Table) user(i int) int {
	n, err := strconv.Atoi(t.Rows[i][t.place("user_id")][1:])
	if err != nil {
		panic(err) // a bug in this package
	}
	return n
}

// to returns a change that makes every value the same, for where and partly.
func to(value string) func(string) string { return func(string) string { return value } }

// where returns the table with the values of the column name changed in the rows that have value in the column other.
func (t Table) where(name, other, value string, change func(old string) string) Table {
	return t.each(name, func(i int, old string) string {
		if t.has(i, other, value) {
			return change(old)
		}
		return old
	})
}

// again returns the table with each row for which where holds followed by copies of it, as many as times says.
func (t Table) again(times int, where func(i int) bool) Table {
	out := Table{Names: slices.Clone(t.Names)}
	for i, r := range t.Rows {
		out.Rows = append(out.Rows, slices.Clone(r))
		if where(i) {
			for range times {
				out.Rows = append(out.Rows, slices.Clone(r))
			}
		}
	}
	return out
}

// labelled returns the table with label given to a random share of the rows for which where holds.
func labelled(rng *rand.Rand, t Table, label string, share float64, where func(i int) bool) Table {
	return labels(t, func(i int, old string) string {
		if where(i) && rng.Float64() < share {
			return label
		}
		return old
	})
}

// zeroed returns the table with the label 0 given to a random share of the rows for which where holds: clicks are lost.
func zeroed(rng *rand.Rand, t Table, share float64, where func(i int) bool) Table {
	return labelled(rng, t, "0", share, where)
}

// invertLabels returns the table with the labels 0 and 1 exchanged in the rows for which where holds.
func invertLabels(t Table, where func(i int) bool) Table {
	return labels(t, func(i int, old string) string {
		if where(i) {
			return map[string]string{"0": "1", "1": "0"}[old]
		}
		return old
	})
}

// bots returns the table with a random share of the rows given to two new users, with the label click.
func bots(rng *rand.Rand, t Table, share float64, click string) Table {
	out, user, label := t.clone(), t.place("user_id"), t.place("is_click")
	for i := range out.Rows {
		if rng.Float64() < share {
			out.Rows[i][user], out.Rows[i][label] = fmt.Sprintf("u%d", 90_000+rng.IntN(2)), click
		}
	}
	return out
}

// permuted returns the table with a column's values shuffled among the rows for which where holds.
func permuted(rng *rand.Rand, t Table, name string, where func(i int) bool) Table {
	var places []int
	for i := range t.Rows {
		if where(i) {
			places = append(places, i)
		}
	}
	out, at := t.clone(), t.place(name)
	for k, from := range rng.Perm(len(places)) {
		out.Rows[places[k]][at] = t.Rows[places[from]][at]
	}
	return out
}

// partly returns the table with a random share of a column's values changed.
func partly(rng *rand.Rand, t Table, name string, share float64, change func(old string) string) Table {
	return t.each(name, func(_ int, old string) string {
		if rng.Float64() < share {
			return change(old)
		}
		return old
	})
}

// scaled returns a number times a factor; a text that is no number stays as it is.
func scaled(old string, factor float64) string {
	x, err := strconv.ParseFloat(old, 64)
	if err != nil {
		return old
	}
	return strconv.FormatFloat(factor*x, 'f', -1, 64)
}

// redated returns copies of yesterday's rows with today's date.
func redated(rows [][]string) [][]string {
	t := Table{Names: columns, Rows: rows}
	return t.Moved(24 * time.Hour).Rows
}

// every chooses all rows.
func every(int) bool { return true }

// subtleLabels returns kinds of nights with wrong labels in a part of the rows.
func subtleLabels() []Kind {
	return []Kind{
		{Name: "a fifth of the clicks lost", Want: code(nights.CodeLabelRate, nights.CodeLabelsLost),
			Break: func(rng *rand.Rand, t, _ Table) Table { return zeroed(rng, t, 0.2, every) }},
		{Name: "70 % of the biggest campaign's clicks lost", Want: code(nights.CodeLabelsLost),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				id := busiest(t)
				return zeroed(rng, t, 0.7, func(i int) bool { return t.has(i, "campaign_id", id) })
			}},
		{Name: "labels shuffled within the biggest campaign", Want: code(nights.CodeShuffled),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				id := busiest(t)
				return permuted(rng, t, "is_click", func(i int) bool { return t.has(i, "campaign_id", id) })
			}},
		{Name: "80 % of the clicks on desktops lost", Want: code(nights.CodeLabelsLost),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return zeroed(rng, t, 0.8, func(i int) bool { return t.has(i, "device", "desktop") })
			}},
		{Name: "the last four hours lack 70 % of their clicks", Want: code(nights.CodeLabelsLost),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return zeroed(rng, t, 0.7, func(i int) bool { return within(t, i, 20, 24) })
			}},
		{Name: "an exchange's labels inverted", Want: code(nights.CodeInverted, nights.CodeLabelRate),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				return invertLabels(t, func(i int) bool { return t.has(i, "exchange", "magnite") })
			}},
		{Name: "an exchange's labels shuffled", Want: code(nights.CodeShuffled),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return permuted(rng, t, "is_click", func(i int) bool { return t.has(i, "exchange", "adx") })
			}},
		{Name: "3 % of the rows clicked at random", Want: code(nights.CodeLabelRate, nights.CodeShuffled),
			Break: func(rng *rand.Rand, t, _ Table) Table { return labelled(rng, t, "1", 0.03, every) }},
		{Name: "an exchange clicks five times as often", Want: code(nights.CodeLabelRate),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return labelled(rng, t, "1", 0.2, func(i int) bool { return t.has(i, "exchange", "xandr") })
			}},
	}
}

// sampledLabels returns kinds of nights in which labels were lost at random, or rows left out or repeated because of
// their label.
func sampledLabels() []Kind {
	return []Kind{
		{Name: "half of the labels belong to other rows", Want: code(nights.CodeShuffled),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return permuted(rng, t, "is_click", func(int) bool { return rng.Float64() < 0.5 })
			}},
		{Name: "half of the clicks of three countries lost", Want: code(nights.CodeLabelsLost),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return zeroed(rng, t, 0.5, func(i int) bool {
					return t.has(i, "country", "DE") || t.has(i, "country", "FR") || t.has(i, "country", "GB")
				})
			}},
		{Name: "a fifth of the negatives left out", Want: code(nights.CodeLabelRate, nights.CodeRows),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return keepRows(t, func(i int) bool { return t.has(i, "is_click", "1") || rng.Float64() < 0.8 })
			}},
		{Name: "30 % of an exchange's negatives left out", Want: code(nights.CodeLabelRate),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return keepRows(t, func(i int) bool {
					return t.has(i, "is_click", "1") || !t.has(i, "exchange", "adx") || rng.Float64() < 0.7
				})
			}},
		{Name: "the clicks of an eighth of the users lost", Want: code(nights.CodeLabelRate, nights.CodeLabelsLost),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return zeroed(rng, t, 1, func(i int) bool { return t.user(i)%8 == 3 })
			}},
		{Name: "40 % of the clicks twice", Want: code(nights.CodeRepeatedRows, nights.CodeLabelRate),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return t.again(1, func(i int) bool { return t.has(i, "is_click", "1") && rng.Float64() < 0.4 })
			}},
		{Name: "every second negative left out", Want: code(nights.CodeLabelRate, nights.CodeRows),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return keepRows(t, func(i int) bool { return t.has(i, "is_click", "1") || rng.Float64() < 0.5 })
			}},
	}
}

// subtleValues returns kinds of nights with few wrong values, with wrong values in one group of rows, or with values of
// which each is possible by itself.
func subtleValues() []Kind {
	return []Kind{
		{Name: "seconds in milliseconds in 7 % of the rows", Want: code(nights.CodeScaled, nights.CodeDrift),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return partly(rng, t, "session_s", 0.07, func(old string) string { return scaled(old, 1000) })
			}},
		{Name: "7 % of a column empty", Want: code(nights.CodeMissingValues),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return partly(rng, t, "user_id", 0.07, to(""))
			}},
		{Name: "an aggregate that contains tonight's labels", Want: code(nights.CodeLeak),
			Break: func(_ *rand.Rand, t, _ Table) Table { return leaking(t, "user_clicks_7d", 1) }},
		{Name: "an aggregate that contains a third of tonight's labels", Want: code(nights.CodeLeak),
			Break: func(_ *rand.Rand, t, _ Table) Table { return leaking(t, "user_clicks_7d", 3) }},
		{Name: "a new aggregate with tonight's labels", Want: code(nights.CodeLeak),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				// Before the labels are added, the new column has small numbers that have nothing to do with them: half
				// of the length of the text before the label.
				click := t.place("is_click")
				return leaking(addColumn(t, "user_clicks_30d", func(i int) string {
					return strconv.Itoa(len(t.Rows[i][click-1]) / 2)
				}), "user_clicks_30d", 2)
			}},
		{Name: "a stale aggregate", Want: code(nights.CodeStale), Break: func(_ *rand.Rand, t, y Table) Table {
			old, at := map[string]string{}, y.place("campaign_id")
			for _, r := range y.Rows {
				old[r[at]] = r[y.place("campaign_ctr_7d")]
			}
			return t.each("campaign_ctr_7d", func(i int, now string) string { return cmp.Or(old[t.Rows[i][at]], now) })
		}},
		{Name: "an exchange without prices", Want: code(nights.CodeMissingValues),
			Break: func(_ *rand.Rand, t, _ Table) Table { return t.where("price", "exchange", "magnite", to("")) }},
		{Name: "an exchange's prices in cents", Want: code(nights.CodeScaled, nights.CodeDrift),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				return t.where("price", "exchange", "magnite", func(old string) string { return scaled(old, 100) })
			}},
		{Name: "a third of the users unknown", Want: code(nights.CodeLevel),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return partly(rng, t, "user_id", 0.33, to("unknown"))
			}},
		{Name: "placements of another row in an exchange", Want: code(nights.CodeScrambled, nights.CodeShuffled),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return permuted(rng, t, "placement", func(i int) bool { return t.has(i, "exchange", "adx") })
			}},
		{Name: "two campaigns' ids exchanged", Want: code(nights.CodeLabelRate, nights.CodeLabelsLost,
			nights.CodeScrambled, nights.CodeLevel, nights.CodeScaled),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				a := busiest(t)
				b := busiest(keepRows(t, func(i int) bool { return !t.has(i, "campaign_id", a) }))
				swap := map[string]string{a: b, b: a}
				return t.each("campaign_id", func(_ int, old string) string { return cmp.Or(swap[old], old) })
			}},
		{Name: "a fifth of the countries written differently", Want: code(nights.CodeUnseen, nights.CodeLevel,
			nights.CodeDrift), Break: func(rng *rand.Rand, t, _ Table) Table {
			return partly(rng, t, "country", 0.2, func(old string) string { return old + " " + old })
		}},
		{Name: "users cut to three characters", Want: code(nights.CodeUnseen, nights.CodeLevel, nights.CodeDrift),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				return t.each("user_id", func(_ int, old string) string { return old[:min(len(old), 3)] })
			}},
		{Name: "clicks of the week before are zero in half of the rows", Want: code(nights.CodeLevel,
			nights.CodeDrift, nights.CodeScrambled), Break: func(rng *rand.Rand, t, _ Table) Table {
			return partly(rng, t, "user_clicks_7d", 0.5, to("0"))
		}},
	}
}

// leaking returns the table with 1 added to a column of whole numbers in clicked rows, of which it takes only those in
// every n-th row of the table. Values that are no whole numbers stay.
func leaking(t Table, name string, n int) Table {
	click := t.place("is_click")
	return t.each(name, func(i int, old string) string {
		x, err := strconv.Atoi(old)
		if err != nil || t.Rows[i][click] != "1" || i%n != 0 {
			return old
		}
		return strconv.Itoa(x + 1)
	})
}

// subtleRows returns kinds of nights of which some rows are wrong: old, repeated, missing, at another time, or of bots.
func subtleRows() []Kind {
	return []Kind{
		{Name: "yesterday's file with new dates", Want: code(nights.CodeSameRows, nights.CodeOldRows),
			Break: func(_ *rand.Rand, _, y Table) Table { return Table{Names: y.Names, Rows: redated(y.Rows)} }},
		{Name: "a tenth of yesterday's rows with new dates", Want: code(nights.CodeOldRows),
			Break: func(rng *rand.Rand, t, y Table) Table {
				out := t.clone()
				for _, i := range rng.Perm(len(y.Rows))[:len(y.Rows)/10] {
					out.Rows = append(out.Rows, redated([][]string{y.Rows[i]})...)
				}
				return out
			}},
		{Name: "one row from 1970, and three hours missing", Want: code(nights.CodeGap),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				out := keepRows(t, func(i int) bool { return !within(t, i, 11, 14) })
				out.Rows[0][0] = "1970-01-01T00:00:00.000Z"
				return out
			}},
		{Name: "the biggest campaign's rows twice", Want: code(nights.CodeRepeatedRows, nights.CodeLevel),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				id := busiest(t)
				out := t.clone()
				for i, r := range t.Rows {
					if t.has(i, "campaign_id", id) {
						copied := slices.Clone(r)
						copied[0] = t.Rows[(i+7)%len(t.Rows)][0]
						out.Rows = append(out.Rows, copied)
					}
				}
				return out
			}},
		{Name: "no desktops", Want: code(nights.CodeLevel, nights.CodeDrift),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				return keepRows(t, func(i int) bool { return !t.has(i, "device", "desktop") })
			}},
		{Name: "an exchange's clock in another zone", Want: code(nights.CodeClock, nights.CodeGap,
			nights.CodeStale, nights.CodeFuture, nights.CodeScrambled,
			nights.CodeLabelsLost), Break: func(_ *rand.Rand, t, _ Table) Table {
			late := t.Moved(6 * time.Hour)
			return t.each("ts", func(i int, old string) string {
				if t.has(i, "exchange", "open") {
					return late.Rows[i][0]
				}
				return old
			})
		}},
		{Name: "bots that click", Want: code(nights.CodeLevel, nights.CodeLabelRate),
			Break: func(rng *rand.Rand, t, _ Table) Table { return bots(rng, t, 0.03, "1") }},
	}
}

// joined returns kinds of nights whose tables were joined wrongly, so that rows are repeated or have values, labels or
// times that belong elsewhere.
func joined() []Kind {
	return []Kind{
		{Name: "a join repeats a campaign's rows with other countries", Want: code(nights.CodeRepeatedRows,
			nights.CodeLevel, nights.CodeDrift), Break: func(rng *rand.Rand, t, _ Table) Table {
			id := busiest(t)
			out, at := t.again(3, func(i int) bool { return t.has(i, "campaign_id", id) }), t.place("country")
			for i := range out.Rows {
				if out.has(i, "campaign_id", id) {
					out.Rows[i][at] = countries[rng.IntN(len(countries))]
				}
			}
			return out
		}},
		{Name: "every second row in another zone", Want: code(nights.CodeClock, nights.CodeStale, nights.CodeFuture,
			nights.CodeGap, nights.CodeScrambled), Break: func(_ *rand.Rand, t, _ Table) Table {
			late := t.Moved(7 * time.Hour)
			return t.each("ts", func(i int, old string) string { return []string{old, late.Rows[i][0]}[i%2] })
		}},
		{Name: "countries in lower case", Want: code(nights.CodeUnseen),
			Break: func(rng *rand.Rand, t, _ Table) Table { return partly(rng, t, "country", 1, strings.ToLower) }},
		{Name: "sessions that last until after the click", Want: code(nights.CodeLeak, nights.CodeLabelsLost),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				return t.where("session_s", "is_click", "1", func(old string) string { return scaled(old, 2) })
			}},
		{Name: "clicks that belong to rows of the day after", Want: code(nights.CodeShuffled),
			Break: func(rng *rand.Rand, t, y Table) Table {
				// Each campaign has yesterday's number of clicks, at random rows of today.
				clicks, at := map[string]int{}, t.place("campaign_id")
				for i, r := range y.Rows {
					if y.has(i, "is_click", "1") {
						clicks[r[at]]++
					}
				}
				out := zeroed(rng, t, 1, every)
				for _, i := range rng.Perm(len(t.Rows)) {
					clicks[t.Rows[i][at]]--
					if clicks[t.Rows[i][at]] >= 0 {
						out.Rows[i][len(columns)-1] = "1"
					}
				}
				return out
			}},
		{Name: "an exchange's bids in another currency", Want: code(nights.CodeScaled, nights.CodeDrift),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				for _, name := range []string{"price", "bid_floor"} {
					t = t.where(name, "exchange", "open", func(old string) string { return scaled(old, 4.3) })
				}
				return t
			}},
		{Name: "bots that click on one placement", Want: code(nights.CodeLabelRate, nights.CodeLeak),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return labelled(rng, t, "1", 0.1, func(i int) bool { return t.has(i, "placement", "banner") })
			}},
		{Name: "every click also as a row without one", Want: code(nights.CodeRepeatedRows, nights.CodeSharedRows,
			nights.CodeLabelRate), Break: func(_ *rand.Rand, t, _ Table) Table {
			out := t.again(1, func(i int) bool { return t.has(i, "is_click", "1") })
			for i := 1; i < len(out.Rows); i++ {
				if out.has(i, "is_click", "1") && slices.Equal(out.Rows[i], out.Rows[i-1]) {
					out.Rows[i][len(columns)-1] = "0"
				}
			}
			return out
		}},
		{Name: "60 % of the clicks of known users lost", Want: code(nights.CodeLabelsLost, nights.CodeLabelRate),
			Break: func(rng *rand.Rand, t, _ Table) Table {
				return zeroed(rng, t, 0.6, func(i int) bool { return !t.has(i, "user_clicks_7d", "0") })
			}},
		{Name: "users' ids exchanged", Want: code(nights.CodeLevel, nights.CodeUnseen, nights.CodeScrambled),
			Break: func(_ *rand.Rand, t, _ Table) Table {
				return t.each("user_id", func(i int, _ string) string {
					return fmt.Sprintf("u%d", t.user(i)/40_000*40_000+t.user(i)*7919%40_000)
				})
			}},
	}
}

// Ordinary is a kind of good night that differs from those before, and must not be held back.
type Ordinary struct {
	Name string
	// Tuned is as in Kind.
	Tuned bool
	Make  func(s Stream, day int) Table
}

// OrdinaryNights returns the kinds of good nights that differ from those before.
func OrdinaryNights() []Ordinary {
	// with makes the stream's night with the differences x.
	with := func(x change) func(Stream, int) Table {
		return func(s Stream, day int) Table { return s.night(day, x) }
	}
	return []Ordinary{
		{Name: "a sale: 20 % more clicks", Tuned: true, Make: with(change{rate: 0.2})},
		{Name: "prices 10 % higher", Tuned: true, Make: with(change{price: 0.0953})},
		{Name: "a holiday: 60 % fewer rows", Tuned: true, Make: with(change{volume: -0.916})},
		{Name: "a new campaign with 30 % of the rows", Tuned: true, Make: with(change{campaign: 0.3})},
		{Name: "a new campaign with 15 % of the rows", Tuned: true, Make: with(change{campaign: 0.15})},
		{Name: "the biggest campaign has ended", Tuned: true, Make: with(change{without: true})},
		{Name: "a sale and half as many rows again", Tuned: false, Make: with(change{rate: 0.15, volume: 0.4})},
		{Name: "prices 8 % lower", Tuned: false, Make: with(change{price: -0.083})},
		{Name: "more mobile devices", Tuned: false, Make: with(change{mobile: 0.07})},
		{Name: "a new column", Tuned: true, Make: func(s Stream, day int) Table {
			t := s.Night(day)
			at := t.place("user_id")
			return addColumn(t, "browser", func(i int) string { return []string{"a", "b", "c"}[len(t.Rows[i][at])%3] })
		}},
		{Name: "a new column with one number per campaign", Tuned: false, Make: func(s Stream, day int) Table {
			t := s.Night(day)
			at := t.place("campaign_id")
			return addColumn(t, "campaign_ctr_28d", func(i int) string { return "0.0" + t.Rows[i][at] })
		}},
		{Name: "a new exchange with 8 % of the rows", Tuned: true, Make: func(s Stream, day int) Table {
			return partly(s.rng(11), s.Night(day), "exchange", 0.08, to("teads"))
		}},
		{Name: "a release: an eighth of the devices have another name", Tuned: true,
			Make: func(s Stream, day int) Table {
				return partly(s.rng(12), s.Night(day), "device", 0.12, func(old string) string {
					if old == "mobile" {
						return "mobile 19"
					}
					return old
				})
			}},
		{Name: "one row from 1970", Tuned: true, Make: func(s Stream, day int) Table {
			t := s.Night(day)
			t.Rows[len(t.Rows)/2][0] = "1970-01-01T00:00:00.000Z"
			return t
		}},
		{Name: "2 % of the ages missing more", Tuned: false, Make: func(s Stream, day int) Table {
			return partly(s.rng(9), s.Night(day), "age", 0.02, to(""))
		}},
	}
}
