package judge_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"coppice/aggregator/internal/judge"
	"coppice/internal/metric"
	"coppice/internal/sweep"
)

// The month simulator has a stream of clicks in cells, one per campaign and placement, whose models are shrunken click
// rates per cell: cheap enough for thousands of nights, and wrong for the same reasons as real ones. A night trains on
// its own rows alone.

const (
	campaigns, placements = 30, 3
	cells                 = campaigns * placements
)

// stream says how a stream changes from night to night.
type stream struct {
	name     string
	rows     int
	drift    float64 // of each campaign's log odds, standard deviation per night
	shock    float64 // of all, by night
	turnover float64 // share of the campaigns that are replaced in a night
	growth   float64 // of the rows, by night
}

var streams = []stream{
	{"steady", 40_000, 0.01, 0.03, 0, 1},
	{"drifting", 40_000, 0.06, 0.06, 0.02, 1},
	{"growing", 20_000, 0.03, 0.04, 0.05, 1.03},
}

// day is the truth of one day, and the counts of its tables.
type day struct {
	share, logit [cells]float64 // of the rows, and of a click
	born         [campaigns]int // as in counts
	train, test  counts
}

// counts are a table: rows and clicks by cell. born has a number for each campaign, which changes when another one
// takes its place.
type counts struct {
	all, clicks [cells]int
	born        [campaigns]int
}

// model predicts the click rate of a cell or, if it does not know the cell's campaign, the mean rate.
type model struct {
	rate float64
	p    [cells]float64
	born [campaigns]int // the campaigns of its table
}

// knows reports whether the model has seen the campaign of cell i on a day with these campaigns.
func (m *model) knows(i int, born [campaigns]int) bool {
	return m.born[i/placements] == born[i/placements]
}

// predict returns the probability of a click in cell i on a day with these campaigns.
func (m *model) predict(i int, born [campaigns]int) float64 {
	if m.knows(i, born) {
		return m.p[i]
	}
	return m.rate
}

// days returns the first n days of a stream. All is drawn from one generator, in order.
func (s stream) days(seed uint64, n int) []day {
	r := rand.New(rand.NewPCG(seed, 1))
	var size, odds [campaigns]float64 // of each campaign: its volume, and its log odds of a click
	var place [cells]float64          // what each placement adds to these
	var born [campaigns]int
	// begin replaces campaign c by a new one.
	begin := func(c int) {
		born[c]++
		size[c], odds[c] = math.Exp(1.2*r.NormFloat64()), 0.8*r.NormFloat64()
		for p := range placements {
			place[c*placements+p] = 0.5*float64(p) - 0.5 + 0.4*r.NormFloat64()
		}
	}
	for c := range campaigns {
		begin(c)
	}

	out := make([]day, n)
	rows := float64(s.rows)
	for t := range out {
		d, base, total := &out[t], -3.2+s.shock*r.NormFloat64(), 0.0
		for c := range campaigns {
			if r.Float64() < s.turnover {
				begin(c)
			}
			odds[c] += s.drift * r.NormFloat64()
			for p := range placements {
				i := c*placements + p
				d.share[i], d.logit[i] = size[c]*float64(1+p), base+odds[c]+place[i]
				total += d.share[i]
			}
		}
		for i := range d.share {
			d.share[i] /= total
		}
		d.born = born
		d.train, d.test = d.draw(r, int(0.85*rows)), d.draw(r, min(int(0.15*rows), 20_000))
		rows *= s.growth
	}
	return out
}

// draw draws a table of about so many rows of the day.
func (d *day) draw(r *rand.Rand, rows int) (c counts) {
	c.born = d.born
	for i, share := range d.share {
		n := int(share*float64(rows) + r.Float64())
		c.all[i] = n
		p := sigmoid(d.logit[i])
		for range n {
			if r.Float64() < p {
				c.clicks[i]++
			}
		}
	}
	return c
}

// fit trains a model on a table: the click rate of each cell, drawn towards the mean rate.
func fit(c counts) (m model) {
	const prior = 60 // rows
	all, clicks := 0, 0
	for i := range c.all {
		all, clicks = all+c.all[i], clicks+c.clicks[i]
	}
	m.rate, m.born = float64(clicks)/float64(all), c.born
	for i := range m.p {
		m.p[i] = (float64(c.clicks[i]) + prior*m.rate) / (float64(c.all[i]) + prior)
	}
	return m
}

// loss returns a model's expected log loss on the day, by the true probabilities.
func (d *day) loss(m model) (sum float64) {
	for i, share := range d.share {
		q, p := sigmoid(d.logit[i]), m.predict(i, d.born)
		sum -= share * (q*math.Log(p) + (1-q)*math.Log(1-p))
	}
	return sum
}

// trouble is a way to break a night's table. It is applied to train and to test.
type trouble struct {
	name string
	do   func(r *rand.Rand, c *counts)
}

// biggest returns the cells of the campaign with the most rows.
func (c *counts) biggest() (of []int) {
	best, most := 0, -1
	for k := range campaigns {
		n := 0
		for p := range placements {
			n += c.all[k*placements+p]
		}
		if n > most {
			best, most = k, n
		}
	}
	for p := range placements {
		of = append(of, best*placements+p)
	}
	return of
}

// lose turns a random share of the clicks of cell i into rows without one.
func (c *counts) lose(r *rand.Rand, i int, share float64) {
	for range c.clicks[i] {
		if r.Float64() < share {
			c.clicks[i]--
		}
	}
}

// stir moves a random share of each cell's rows, with their clicks, to the cell that to returns for it.
func (c *counts) stir(r *rand.Rand, share float64, to func(i int) int) {
	was := *c
	for i, n := range was.all {
		for k := range n {
			if r.Float64() >= share {
				continue
			}
			j := to(i)
			c.all[i], c.all[j] = c.all[i]-1, c.all[j]+1
			if k < was.clicks[i] {
				c.clicks[i], c.clicks[j] = c.clicks[i]-1, c.clicks[j]+1
			}
		}
	}
}

var troubles = []trouble{
	{"labels shuffled within the biggest campaigns", func(_ *rand.Rand, c *counts) {
		cut := c.cut(0.4)
		all, clicks := 0, 0
		for i, n := range c.all {
			if n >= cut {
				all, clicks = all+n, clicks+c.clicks[i]
			}
		}
		for i, n := range c.all {
			if n >= cut {
				c.clicks[i] = n * clicks / all
			}
		}
	}},
	{"20 % of the positives lost", func(r *rand.Rand, c *counts) {
		for i := range c.all {
			c.lose(r, i, 0.2)
		}
	}},
	{"70 % of the biggest campaign's positives lost", func(r *rand.Rand, c *counts) {
		for _, i := range c.biggest() {
			c.lose(r, i, 0.7)
		}
	}},
	{"another placement in a third of the rows", func(r *rand.Rand, c *counts) {
		c.stir(r, 1./3, func(i int) int { return i/placements*placements + r.IntN(placements) })
	}},
	{"7 % of the rows in another campaign", func(r *rand.Rand, c *counts) {
		c.stir(r, 0.07, func(int) int { return r.IntN(cells) })
	}},
	{"25 % of the rows in another campaign", func(r *rand.Rand, c *counts) {
		c.stir(r, 0.25, func(int) int { return r.IntN(cells) })
	}},
	{"bots click in a campaign", func(_ *rand.Rand, c *counts) {
		for _, i := range c.biggest() {
			c.clicks[i] += (c.all[i] - c.clicks[i]) / 10
		}
	}},
	{"labels of another day for a third", func(r *rand.Rand, c *counts) {
		for i := range c.all {
			k := r.IntN(cells)
			if r.IntN(3) == 0 && c.all[k] > 0 {
				c.clicks[i] = c.all[i] * c.clicks[k] / c.all[k]
			}
		}
	}},
}

// cut returns the number of rows of the smallest of those largest cells that together hold a share of all rows.
func (c *counts) cut(share float64) int {
	sizes := slices.Sorted(slices.Values(c.all[:]))
	all, sum := 0, 0
	for _, n := range sizes {
		all += n
	}
	for _, n := range slices.Backward(sizes) {
		if sum += n; float64(sum) >= share*float64(all) {
			return n
		}
	}
	return 0
}

// version is a registered model, and the test rows of its night. M is the type of models, T that of test rows.
type version[M, T any] struct {
	model    M
	test     T
	sound    bool
	replaced int // the champion before it; -1 for none, or if it never was the champion
	regrets  int // the champion that it found wrong and did not take back; -1 for none
}

// month is a month of a registry under the gate: what package conclude does, without objects.
type month[M, T any] struct {
	gate sweep.Gate
	loss metric.Metric
	// judged returns test rows with the predictions of three models, of which old and last may be nil. night is 0 for
	// tonight's rows, or the number of the version that keeps them.
	judged func(test T, night int, fresh, old, last *M) judge.Judged
	unseen int // of how many of the last nights tonight's model has not seen the test rows
	apart  int // how many nights lie between two whose test rows are mostly others

	versions []version[M, T]
	gains    []float64 // as in judge.Evidence
	champion int       // index; -1 for none
}

// judged expands counts to rows, without those of campaigns that the first model cannot know any more.
func judged(c counts, night int, fresh, old, last *model) judge.Judged {
	j := judge.Judged{Night: night}
	for i, n := range c.all {
		if night > 0 && !fresh.knows(i, c.born) {
			continue
		}
		for k := range n {
			label := float32(0)
			if k < c.clicks[i] {
				label = 1
			}
			j.Label = append(j.Label, label)
			for pred, m := range map[*[]float64]*model{&j.New: fresh, &j.Old: old, &j.Last: last} {
				if m != nil {
					*pred = append(*pred, m.predict(i, c.born))
				}
			}
		}
	}
	return j
}

// night registers a night's model, whose test rows are test, and judges it, as the aggregator does. It may first take
// the champion back.
func (m *month[M, T]) night(fresh M, test T) *sweep.GateDecision {
	v := version[M, T]{model: fresh, test: test, replaced: -1, regrets: -1}
	m.takeBack(&v)
	d := judge.Judge(m.gate, m.loss, m.evidence(&v, m.champion))
	v.sound = d.Sound
	if d.Verdict == sweep.VerdictPromoted {
		v.replaced, m.champion = m.champion, len(m.versions)
	}
	m.versions = append(m.versions, v)
	m.gains = append(judge.Gains(d), m.gains...)
	return d
}

// takeBack makes the version before the champion the champion again if the rows of the new version, v, show the
// champion to be worse, by the rules of takeBackChampion in package conclude: only last night's champion, or that of
// the night before if last night regretted it; and not if v's night is doubted, unless it is the second that says so.
func (m *month[M, T]) takeBack(v *version[M, T]) {
	last := len(m.versions) - 1
	if m.champion < 0 {
		return
	}
	c := &m.versions[m.champion]
	second := m.champion == last-1 && m.versions[last].regrets == m.champion
	if m.champion != last && !second || c.replaced < 0 {
		return
	}
	rows := m.judged(v.test, 0, &c.model, &m.versions[c.replaced].model, nil)
	if worse, _ := judge.Worse(m.gate, m.loss, rows, 0); !worse {
		return
	}
	was := c.sound
	c.sound = false
	if judge.Doubt(judge.Judge(m.gate, m.loss, m.evidence(v, c.replaced))) != "" && !second {
		c.sound, v.regrets = was, m.champion
		return
	}
	m.champion = c.replaced
}

// evidence returns the evidence about a night's model against a champion, an index in versions, or -1 for none. If the
// version of the night before was held back, and v's rows show it to be better than the latest sound one, it becomes
// sound.
func (m *month[M, T]) evidence(v *version[M, T], champion int) judge.Evidence {
	e := judge.Evidence{Binary: true, NotReference: "none", Shares: even, Gains: m.gains}
	if champion < 0 {
		e.Tonight = m.judged(v.test, 0, &v.model, nil, nil)
		return e
	}
	old, latest := &m.versions[champion].model, champion
	for k := champion + 1; k < len(m.versions); k++ {
		if m.versions[k].sound {
			latest = k
		}
	}
	// the night before was held back, and is right
	if k := len(m.versions) - 1; k > latest && m.versions[k].replaced == -1 &&
		judge.Better(m.gate, m.loss, m.judged(v.test, 0, &m.versions[k].model, &m.versions[latest].model, nil)) {
		m.versions[k].sound, latest = true, k
	}
	var last *M
	if latest != champion {
		last, e.Latest = &m.versions[latest].model, latest+1
	}
	taken := len(m.versions) + m.apart
	for k := len(m.versions) - 1; k >= max(0, len(m.versions)-m.unseen) && len(e.Earlier) < 7; k-- {
		if w := &m.versions[k]; w.sound && k <= taken-m.apart {
			taken = k
			e.Earlier, e.NotReference = append(e.Earlier, m.judged(w.test, k+1, &v.model, old, last)), ""
		}
	}
	e.Champion = champion + 1
	e.Tonight = m.judged(v.test, 0, &v.model, old, last)
	return e
}

// months returns the seeds with which the tests below simulate a month of each stream: as many as the environment
// variable MONTHS says, one by default, from SEED on. The gate's rules were chosen with the seeds 0 to 5 in sight.
func months(t *testing.T) []uint64 {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("MONTHS"), "1"))
	first, errSeed := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "0"), 10, 32)
	if err != nil || n < 1 || errSeed != nil {
		t.Fatalf("MONTHS is %q and SEED %q, want numbers", os.Getenv("MONTHS"), os.Getenv("SEED"))
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}

// strict is an earlier rule of the gate, for comparison: a model goes live if it is shown to be better than the
// champion tonight, and not shown to be worse on rows of earlier champions.
type strict[M, T any] struct {
	month[M, T]
	live  *M  // the champion
	tests []T // the test rows of all champions' nights, oldest first
}

// night judges a night's model, which becomes the champion if it passes.
func (s *strict[M, T]) night(fresh M, test T) {
	if s.live != nil {
		if !judge.Better(s.gate, s.loss, s.judged(test, 0, &fresh, s.live, nil)) {
			return
		}
		var all judge.Judged
		for _, then := range s.tests[max(0, len(s.tests)-7):] {
			r := s.judged(then, 0, s.live, &fresh, nil)
			all.Label, all.New, all.Old = append(all.Label, r.Label...), append(all.New, r.New...), append(all.Old,
				r.Old...)
		}
		if judge.Better(s.gate, s.loss, all) {
			return
		}
	}
	s.live, s.tests = &fresh, append(s.tests, test)
}

// TestMonths simulates months in which one night in ten is broken, without the checks of staging. The log loss on the
// next day, summed over the nights, must be at most .5 % above that of an oracle, which each night keeps its model or
// takes the night's, whichever is better on the next day, and at most .1 % above that with the earlier rule (strict).
// Of n broken nights that cost 1 % or more, 1 + n/50 may stay live for longer than a night. Of n good nights 2 + n/50
// may be held back. Of models that are better on the next day nine in ten must go live. 1 and 2 are allowed since a
// single month has few such nights.
func TestMonths(t *testing.T) {
	loss := logLoss(t)
	for _, s := range streams {
		t.Run(s.name, func(t *testing.T) {
			var gated, before, always, oracle float64
			// Counts of nights; the log line below says what each of them is.
			broken, brokenLive, stayed, good, held, worse, better, betterLive := 0, 0, 0, 0, 0, 0, 0, 0
			for _, seed := range months(t) {
				r := rand.New(rand.NewPCG(seed, 3))
				days := s.days(seed, 32) // 31 nights, and the day after the last
				m := &month[model, counts]{gate: gate(nil), loss: loss, judged: judged, unseen: 31, champion: -1}
				old := &strict[model, counts]{month: *m}
				old.gate.Confidence = 0.95
				var best *model
				regretted := -1 // last night's champion, if it is of a broken night
				for at := range 31 {
					// Perhaps break the night's table, and judge its model by both rules.
					train, test, next := days[at].train, days[at].test, &days[at+1]
					fair := fit(train)
					bad := at > 0 && r.IntN(10) == 0
					if bad {
						x := troubles[r.IntN(len(troubles))]
						x.do(r, &train)
						x.do(r, &test)
					}
					fresh, was := fit(train), m.champion
					d := m.night(fresh, test)
					old.night(fresh, test)
					if best == nil || next.loss(fresh) < next.loss(*best) {
						best = &fresh
					}
					if at == 0 {
						continue
					}

					// Count what came of it. A broken night whose model costs less than 1 % is neither bad nor good.
					live := d.Verdict == sweep.VerdictPromoted
					if regretted >= 0 && m.champion == regretted {
						stayed++
					}
					regretted = -1
					switch costs := next.loss(fresh) > 1.01*next.loss(fair); {
					case bad && costs:
						broken++
						if live {
							brokenLive++
							regretted = m.champion
						}
					case !bad:
						good++
						if !live {
							held++
						}
						if next.loss(fresh) < next.loss(m.versions[was].model) {
							better++
							if live {
								betterLive++
							}
						}
						if live && next.loss(fresh) > (1+sweep.DefaultMargin)*next.loss(m.versions[was].model) {
							worse++
						}
					}
					gated += next.loss(m.versions[m.champion].model)
					before += next.loss(*old.live)
					always += next.loss(fresh)
					oracle += next.loss(*best)
				}
			}
			over := func(x float64) float64 { return 100 * (x/oracle - 1) }
			t.Logf("next-day entropy above the oracle's: gate %.2f %%, before %.2f %%, always %.2f %%", over(gated),
				over(before), over(always))
			t.Logf("of %d broken nights that cost 1 %% or more %d went live, %d of them for more than a night; of %d "+
				"good ones %d were held back; of %d whose model is better on the next day %d went live; %d champions "+
				"were worse than the one before by more than the margin",
				broken, brokenLive, stayed, good, held, better, betterLive, worse)
			if over(gated) > 0.5 || gated > 1.001*before || stayed > 1+broken/50 || held > 2+good/50 ||
				10*betterLive < 9*better {
				t.Errorf("that is not what docs/run.md promises: want at most .5 %% above the oracle, no more than "+
					"before, at most %d that stay, %d held back, and nine in ten better models live",
					1+broken/50, 2+good/50)
			}
		})
	}
}

// TestOldChampions: a broken night is held back if the champion is 1, 7, 14 or 21 nights old (21 alone, unless
// COPPICE_FULL or MONTHS is set) and newer versions, which were not promoted because that is left to a person, are
// sound. Of n broken nights that cost 1 % or more, at most 1 + n/10 may go live, and 1 + n/50 of these for longer than
// a night. Of n good nights 1 + n/20 may be held back. Every branch is the same month, ended by another broken night.
func TestOldChampions(t *testing.T) {
	loss := logLoss(t)
	ages := []int{1, 7, 14, 21}
	if os.Getenv("COPPICE_FULL")+os.Getenv("MONTHS") == "" {
		ages = ages[3:]
	}
	for _, age := range ages {
		t.Run(fmt.Sprint(age), func(t *testing.T) {
			broken, live, taken, good, held := 0, 0, 0, 0, 0
			for _, s := range streams {
				for _, seed := range months(t) {
					days := s.days(1000+seed, 33)
					m := &month[model, counts]{gate: gate(nil), loss: loss, judged: judged, unseen: 31, champion: -1}
					for at := range 30 {
						m.gate.Promote = sweep.PromoteAuto
						if at > 30-age { // so that the last champion can be of night 30-age
							m.gate.Promote = sweep.PromoteByHand
						}
						m.night(fit(days[at].train), days[at].test)
					}
					m.gate.Promote = sweep.PromoteAuto
					tonight := &days[30]
					for i, x := range troubles {
						r := rand.New(rand.NewPCG(seed, uint64(i)))
						train, test := tonight.train, tonight.test
						x.do(r, &train)
						x.do(r, &test)
						if days[31].loss(fit(train)) < 1.01*days[31].loss(fit(tonight.train)) {
							continue
						}
						broken++
						branch := *m
						branch.versions = slices.Clone(m.versions)
						if branch.night(fit(train), test).Verdict == sweep.VerdictPromoted {
							live++
							// A sound night follows: has its version taken the place of the broken one, of night 30?
							branch.night(fit(days[31].train), days[31].test)
							if branch.champion != 30 {
								taken++
							}
						}
					}
					good++
					if m.night(fit(tonight.train), tonight.test).Verdict != sweep.VerdictPromoted {
						held++
					}
				}
			}
			t.Logf("of %d broken nights %d went live, %d for one night; of %d good ones %d were held back", broken,
				live, taken, good, held)
			if live > 1+broken/10 || live-taken > 1+broken/50 || held > 1+good/20 {
				t.Errorf("that is not what docs/run.md promises: want at most %d live, %d of them for longer than a "+
					"night, and %d good ones held back", 1+broken/10, 1+broken/50, 1+good/20)
			}
		})
	}
}
