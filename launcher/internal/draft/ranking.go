package draft

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"coppice/internal/gbt"
	"coppice/internal/problem"
)

// setGroup makes a request that names a group one for an order, and refuses what does not go together.
func (q *Request) setGroup() error {
	ranks := gbt.Ranks(q.Objective)
	switch {
	case q.Position != "" && (q.Group == "" || q.Objective != "" && q.Objective != "lambdarank"):
		return problem.New(problem.Usage, "--position needs the objective lambdarank: name the column whose rows "+
			"belong together with --group, and leave --objective out")
	case q.Position != "" && (q.Position == q.Label || q.Position == q.Weight || q.Position == q.Group):
		return problem.New(problem.Usage, "--position %s is the label, the weight or the group", q.Position)
	case q.Group == "" && ranks:
		return problem.New(problem.Usage, "--objective %s: the order of which rows? Name the column whose rows belong "+
			"together with --group", q.Objective)
	case q.Group == "":
		return nil
	case q.Objective != "" && !ranks || q.Objective == "" && q.Regression:
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

// grades decides what the label of an order means.
func (d *Draft) grades(q Request, l *labels) (spec string, err error) {
	if len(l.texts) > 0 {
		return "", problem.New(problem.Input, "--label %s: rows of a %s are ordered by grades, whole numbers from 0 "+
			"to %d, and the column holds %s; name the one that comes first with --positive", q.Label, q.Group,
			gbt.MaxGrade, l.list())
	}
	for y := range l.numbers {
		if y != float64(int(y)) || y < 0 || y > gbt.MaxGrade {
			return "", problem.New(problem.Input, "--label %s: rows of a %s are ordered by grades, whole numbers from "+
				"0 to %d, and the column holds %v", q.Label, q.Group, gbt.MaxGrade, y)
		}
	}
	d.found("label", "%s: rows of a %s are ordered by it (%s rows), by objective %s, and judged by %s", q.Label,
		q.Group, humanize.Comma(l.present), q.Objective, q.Metric)
	return fmt.Sprintf("{column: %s, kind: regression}", quoted(q.Label)), nil
}

// fewQueries is the number of groups below which a tenth of them says little of a configuration. The final model is
// trained on all of them.
const fewQueries = 3000
