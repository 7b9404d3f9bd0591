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

// setGroup checks a request that names a group, or whose objective needs one. A group means that an order is learnt:
// without an objective, it sets that to lambdarank.
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

// decideGrades decides what the label means if an order is learnt. It must hold grades, whole numbers from 0 to
// gbt.MaxGrade: rows with higher grades come first. It returns the spec's value of label.
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
	first  map[uint64]uint64 // by query, the label of its first row: the bits of a number, the hash of a text
	differ map[uint64]bool   // queries with different labels: only from these an order can be learnt
}

// observe notes the first label of each query of a batch, and whether other labels follow. Rows without a query or a
// label are skipped: no order is learnt from them. If yes, the value of --positive, is not empty, there are two labels:
// that value and all others. Of more than maxCounted queries, only the first maxCounted are noted.
func (q *queries) observe(group, label *dataset.Values, markers *cell.Markers, yes string) {
	if q.first == nil {
		q.first, q.differ = map[uint64]uint64{}, map[uint64]bool{}
	}
	for i := range group.Len() {
		if ingest.Missing(group, i, markers) || ingest.Missing(label, i, markers) {
			continue
		}
		x, text, isNumber := valueOf(label, i)
		// Grades are only compared with each other: any number does that is the same for the same label.
		grade := math.Float64bits(x)
		switch {
		case yes != "" && ingest.SameValue(label, i, yes):
			grade = 1
		case yes != "":
			grade = 0
		case !isNumber:
			grade = cell.HashText([]byte(text))
		}
		query := cell.HashText([]byte(group.TextOf(i)))
		first, known := q.first[query]
		switch {
		case !known && len(q.first) < maxCounted:
			q.first[query] = grade
		case known && first != grade:
			q.differ[query] = true
		}
	}
}

// Numbers of queries whose rows have different labels. If there are fewer than fewQueries, a tenth of them says too
// little about a configuration, so more are held out; the final model is trained on all. If there are fewer than
// tinyQueries, a tenth may be none, so the held-out ones serve for all purposes. If there are fewer than fewestQueries,
// chance may leave none to choose or to judge by, so nothing is trained.
const (
	fewQueries    = 3000
	tinyQueries   = 100
	fewestQueries = 30
)

// checkOrder returns an error if a group was asked for, and too few of its values have rows with different labels to
// learn an order. If a column says the split of each row, one such value is enough.
func (s *seen) checkOrder(q Request) error {
	n := len(s.queries.differ)
	if q.Group == "" || n >= fewestQueries || n > 0 && q.Parts != "" {
		return nil
	}
	return problem.New(problem.Input, "--group %s: no order can be learnt: %d of its %s values have rows with "+
		"different %s, and some must be held out: %d are needed", q.Group, n,
		humanize.Comma(s.column(q.Group).distinct.n()), q.Label, fewestQueries)
}

// queryParts returns the shares of a split by groups. They depend on how many groups have rows to order: with few of
// them, metrics on a small part would say nothing. None is for calib, since rankings are not calibrated. It reports the
// split.
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
