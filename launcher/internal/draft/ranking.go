package draft

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/ingest"
	"coppice/internal/gbt"
	"coppice/internal/problem"
)

// setGroup makes a request that names a group one for an order, and refuses what does not go together.
func (q *Request) setGroup() error {
	ranks := gbt.Ranks(q.Objective)
	switch {
	case q.Group == "" && ranks:
		return problem.New(problem.Usage, "--objective %s: the order of which rows? Name the column whose rows belong "+
			"together with --group", q.Objective)
	case q.Group == "":
		return nil
	case q.Objective != "" && !ranks || q.Objective == "" && q.regression:
		return problem.New(problem.Usage, "--group learns an order, by objective lambdarank or rank_xendcg; to keep "+
			"rows together without one, use --key")
	case q.Group == q.Label || q.Group == q.Weight:
		return problem.New(problem.Usage, "--group %s is the label or the weight", q.Group)
	}
	if q.Objective == "" {
		q.Objective = "lambdarank"
		return q.setObjective()
	}
	return nil
}

// decideGrades decides what the label of an order means: whole numbers from 0 are grades. Anything else is an error
// that says what to do.
func (d *Draft) decideGrades(q Request, l *labels) (spec string, err error) {
	if len(l.texts) > 0 {
		return "", problem.New(problem.Input, "--label %s: rows of a %s are ordered by grades, whole numbers from 0 "+
			"to %d, and the column holds %s; name the one that comes first with --positive", q.Label, q.Group,
			gbt.MaxGrade, l.listValues())
	}
	for y := range l.numbers {
		if y != float64(int(y)) || y < 0 || y > gbt.MaxGrade {
			return "", problem.New(problem.Input, "--label %s: rows of a %s are ordered by grades, whole numbers from "+
				"0 to %d, and the column holds %v; cut such numbers into a few grades", q.Label, q.Group, gbt.MaxGrade,
				y)
		}
	}
	d.found("label", "%s: rows of a %s are ordered by it (%s rows), by objective %s, and judged by %s", q.Label,
		q.Group, humanize.Comma(l.present), q.Objective, q.Metric)
	return fmt.Sprintf("{column: %s, kind: regression}", quoted(q.Label)), nil
}

// queries are the groups of a table, up to maxCounted, by the hash of their value.
type queries struct {
	first  map[uint64]uint64 // what tells the first label of each from others
	differ map[uint64]bool   // those that have another, too: only from these an order can be learnt
}

// observe notes for each query, by the hash of its value, the first label that is seen, and whether another follows.
// With yes, the value of --positive, there are two labels: that and all others.
func (q *queries) observe(group, label *dataset.Values, markers *cell.Markers, yes string) {
	if q.first == nil {
		q.first, q.differ = map[uint64]uint64{}, map[uint64]bool{}
	}
	for i := range group.Len() {
		if ingest.Missing(group, i, markers) || ingest.Missing(label, i, markers) {
			continue
		}
		x, text, isNumber := valueOf(label, i)
		grade := math.Float64bits(x)
		switch {
		case yes != "" && ingest.SameValue(label, i, yes):
			grade = 1
		case yes != "":
			grade = 0
		case !isNumber:
			grade = cell.HashText([]byte(text))
		}
		of := cell.HashText([]byte(group.TextOf(i)))
		if first, known := q.first[of]; known && first != grade {
			q.differ[of] = true
		} else if !known && len(q.first) < maxCounted {
			q.first[of] = grade
		}
	}
}

// Numbers of groups with different labels. With fewer than fewQueries a tenth of them says little of a configuration;
// the final model is trained on all. A tenth of fewer than tinyQueries may be none, so held-out ones serve for all
// purposes; of fewer than fewestQueries, chance may leave nothing to choose or to judge by.
const (
	fewQueries    = 3000
	tinyQueries   = 100
	fewestQueries = 30
)

// checkOrder refuses a table from which no order can be learnt.
func (s *seen) checkOrder(q Request) error {
	n := len(s.queries.differ)
	if q.Group == "" || n >= fewestQueries || n > 0 && q.Parts != "" {
		return nil
	}
	return problem.New(problem.Input, "--group %s: no order can be learnt: %d of its %s values have rows with "+
		"different %s, and some must be held out: %d are needed", q.Group, n,
		humanize.Comma(s.column(q.Group).distinct.n()), q.Label, fewestQueries)
}

// queryParts decides the shares of a split by groups, by how many of them have rows to order: of few, the metrics would
// say nothing of a small part.
func (d *Draft) queryParts(q Request, s *seen) string {
	n := len(s.queries.differ)
	d.found("split", "by %s: its rows stay together (%s values, %s of them with rows of different %s)", q.Group,
		humanize.Comma(s.column(q.Group).distinct.n()), humanize.Comma(int64(n)), q.Label)
	if none := s.column(q.Group).missing; none > 0 {
		d.found("warning", "%s rows have no %s: each is one of its own, and no order is learnt from it",
			humanize.Comma(none), q.Group)
	}
	switch {
	case n < tinyQueries:
		return "train: 0.6, valid: 0.4"
	case n < fewQueries:
		return "train: 0.6, valid: 0.3, test: 0.1"
	}
	return "train: 0.8, valid: 0.1, test: 0.1"
}
