package ingest

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
)

// Whether growing columns help is judged on few rows, since each comparison takes four small models: on growRows at
// most, and on fewer of a wide table, so that they hold no more than growCells values. At most growSteps columns, or
// groups of columns, are judged by themselves; of a wide table, where each model takes long, none.
const (
	growRows  = 20_000
	growCells = 1_000_000
	growSteps = 8

	// harmErrors is by how many standard errors the loss of later rows has to fall without a growing column for it to
	// go while others stay. Between such columns as a year and a row's number there is hardly a difference.
	harmErrors = 1
)

// dropGrowing removes, with a warning, the columns of numbers that keep growing or falling with time (see
// growsWithTime) unless small models predict later rows of train better with them (see encode.Search.LaterLosses). With
// the month of a single year a model may take a season for a trend; the years of a century say what the next are like.
//
// Of several columns, those that do harm go first, one after the other. What is left stays or goes together. It goes if
// there is no difference, or no learner to judge by: later rows have numbers of which nothing was learnt. Chance rarely
// keeps it, since a small model fits the noise of its earlier rows.
func (p *designer) dropGrowing(ctx context.Context, options Options) error {
	var growing []int
	for i := range p.columns {
		if p.survey.spec.OrderBy() == dataset.OrderTime && p.growsWithTime(&p.columns[i]) {
			growing = append(growing, i)
		}
	}
	if len(growing) == 0 {
		return nil
	}

	// Each step drops some columns, unless they are worth it.
	var steps [][]int
	if len(growing) > 1 && len(p.columns) <= wideColumns {
		steps = slices.Collect(slices.Chunk(growing, (len(growing)+growSteps-1)/growSteps))
	}
	steps = append(steps, growing)

	losses, drop := p.laterLosses(options), map[int]bool{}
	with, err := losses(ctx, drop)
	for i := 0; i < len(steps) && err == nil; i++ {
		before := maps.Clone(drop)
		for _, column := range steps[i] {
			drop[column] = true
		}
		var without []float64
		without, err = losses(ctx, drop)
		stay := !encode.LossHasFallen(with, without, harmErrors)
		if i == len(steps)-1 {
			stay = encode.LossHasFallen(without, with, 0)
		}
		if stay {
			drop = before
		} else {
			with = without
		}
	}

	var left []sampledColumn
	for i, c := range p.columns {
		if !drop[i] {
			left = append(left, c)
			continue
		}
		p.warn(c.Name, "keeps growing or falling with time, and newer rows of train are predicted no better with it; "+
			"ignored (add to numeric: to keep)")
	}
	p.use(left)
	return err
}

// laterLosses returns a function that returns the losses of later rows without some columns, by their indices in
// p.columns. Ids of many levels are their rates and counts there, as in the design. With a label of classes these are
// the losses of telling each of the most frequent ones from all others. Without a learner there are none.
func (p *designer) laterLosses(options Options) func(ctx context.Context, drop map[int]bool) ([]float64, error) {
	few := *p // measured on fewer rows
	few.rows, few.exact = min(p.rows, growRows, growCells/len(p.columns)), map[int]int{}
	few.findAtoms()
	labels, binary := [][]float32{p.sample.labels[:few.rows]}, p.sample.binary
	if p.sample.classes > 0 {
		labels, binary = nil, true
		classes := encode.RatedClasses(p.sample.labels, p.sample.classes, 0)
		for _, class := range classes[:min(len(classes), searchClasses)] {
			labels = append(labels, few.isClass(class+1))
		}
	}

	return func(ctx context.Context, drop map[int]bool) ([]float64, error) {
		if options.Learner == nil {
			return nil, nil
		}
		s := few.search(options)
		s.Binary = binary
		for i := range p.columns {
			c := &p.columns[i]
			atom, exact := few.exact[i]
			switch {
			case drop[i]:
			case exact && c.Kind == dataset.Categorical && c.different > smallLevels:
				s.Keys = append(s.Keys, []int{atom})
			default:
				s.Base = append(s.Base, few.baseColumn(c))
			}
		}
		return s.LaterLosses(ctx, labels)
	}
}

// growsWithTime reports whether a column of numbers keeps growing or falling, as the month does within a single year:
// most numbers of the latest third of the rows then lie outside the range of the earlier ones. It is false for a column
// that the spec names, that is categorical or derived, or that has a value in fewer than idRows of the sampled rows.
func (p *designer) growsWithTime(column *sampledColumn) bool {
	asked := column.from.forced == dataset.Numeric || p.survey.specNames(column.Name)
	if asked || column.Kind == dataset.Categorical || column.from.from != nil {
		return false
	}

	// The sampled rows in which the column has a value, by time.
	order := make([]int, 0, len(column.bins))
	for i, b := range column.bins {
		if int(b) != column.MissingBin {
			order = append(order, i)
		}
	}
	if len(order) < idRows {
		return false
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.sample.times[a], p.sample.times[b]) })

	// The range of the earlier two thirds, in bins: bins of numbers ascend with the numbers.
	later := len(order) - len(order)/3
	least, most := column.bins[order[0]], column.bins[order[0]]
	for _, i := range order[:later] {
		least, most = min(least, column.bins[i]), max(most, column.bins[i])
	}

	// How many of the last third lie outside of it.
	beyond := 0
	for _, i := range order[later:] {
		if column.bins[i] < least || column.bins[i] > most {
			beyond++
		}
	}
	return 2*beyond > len(order)-later
}
