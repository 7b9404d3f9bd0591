package gbt

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/exact"
	"coppice/internal/strictyaml"
)

// objective computes gradients and hessians, the first and second derivatives of the loss by a row's raw score. In raw
// and gh, row r is at index r.
type objective interface { //nolint:interfacebloat // what a training asks of its loss
	// init returns the constant raw score to begin with: from the labels, or 0 if fromAverage is false.
	init(fromAverage bool) float64
	// prepare is called before each tree with its number and the current raw scores. It returns the units in which the
	// tree's gradients and hessians are stored, which fill uses until the next prepare. rows are the rows in use, in
	// any order.
	prepare(tree int, raw []float64, rows []uint32, pool *pool) packing
	// fill writes the packed gradients of a part of the rows to gh: of those at the positions lo <= i < hi of the set.
	// They are rounded at random with the numbers of k. It is called after prepare, from several goroutines at once.
	fill(gh []uint32, raw []float64, rows rowSet, lo, hi int, k key)
	// gradients computes exact gradients. g and h are [len(rows)], at most blockRows: g holds the rows' raw scores,
	// which it replaces by gradients, and h receives the hessians. The scores are those that prepare has seen.
	gradients(rows []uint32, g, h []float64)
	// renew replaces the leaf values of a tree just grown, if the loss needs others than the grower's Newton steps. The
	// grower knows the rows of each leaf.
	renew(g *grower, t *Tree, raw []float64)
	// String returns the objective as written in the model file.
	String() string
}

// outputKind says how a prediction follows from a raw score.
type outputKind int

const (
	asIs      outputKind = iota // the raw score is the prediction
	logOdds                     // ... is the log odds of the predicted probability
	logMean                     // ... is the logarithm of the prediction
	root                        // ... is the signed square root of the prediction
	softmax                     // each class has a raw score; its probability is in proportion to e^raw
	oneVsRest                   // each class has a raw score: its log odds against all other classes
)

// objectiveSpec is a row of the table of objectives: all that the other files know of an objective.
type objectiveSpec struct {
	name, aliases string // aliases are separated by blanks
	text          string // the objective's name in the model file
	output        outputKind
	uses          string // of the parameters that belong to some objectives only, those of this one, by blanks
	renews        bool   // leaf values are replaced by quantiles of the rows' residuals
	ranks         bool   // a row's gradient depends on all rows of its query
	classes       bool   // each of num_class classes has an output; then newClasses is called in place of make
	about         string // one line for people

	// make checks the labels of d and returns the objective; text is its name in the model file.
	make func(p *Params, d *Data, text string) (objective, error)
}

// objectives is the table of all objectives, with LightGBM's other names for each.
func objectives() []objectiveSpec {
	// pointwiseOf is the make of an objective that is a sum of one loss per row.
	pointwiseOf := func(loss func(p *Params) rowLoss) func(*Params, *Data, string) (objective, error) {
		return func(p *Params, d *Data, text string) (objective, error) {
			return newPointwise(p, d, text, loss(p))
		}
	}
	mean := (*pointwise).mean
	quantile := (*pointwise).labelQuantile

	return []objectiveSpec{
		{name: "binary", text: binaryObjective, output: logOdds, make: newBinary,
			uses:  scalePosWeight + " " + isUnbalance,
			about: "log loss of labels 0 and 1"},
		{name: "cross_entropy", aliases: "xentropy", text: "cross_entropy", output: logOdds,
			about: "log loss of labels from 0 to 1, such as shares",
			make: pointwiseOf(func(*Params) rowLoss {
				return rowLoss{derive: crossEntropyGrads, badLabel: fromZeroToOne, start: func(o *pointwise) float64 {
					return exact.Log(mean(o) / (1 - mean(o)))
				}}
			})},
		{name: "regression", aliases: "regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse",
			text: "regression", uses: regSqrt, about: "squared error",
			make: pointwiseOf(func(p *Params) rowLoss {
				if p.RegSqrt {
					return rowLoss{derive: rowByRow(squaredOfRoot), unitH: true, start: (*pointwise).meanRoot}
				}
				return rowLoss{derive: rowByRow(squared), unitH: true, start: mean}
			})},
		{name: "regression_l1", aliases: "l1 mean_absolute_error mae", text: "regression_l1", renews: true,
			about: "absolute error; leaves are medians",
			make: pointwiseOf(func(*Params) rowLoss {
				return rowLoss{derive: rowByRow(absolute), unitH: true, start: quantile, quantile: 0.5}
			})},
		{name: "huber", text: "huber", uses: alpha, about: "squared error up to alpha, absolute beyond",
			make: pointwiseOf(func(p *Params) rowLoss {
				return rowLoss{derive: rowByRow(huberGrads(p.Alpha)), unitH: true, start: mean}
			})},
		{name: "quantile", text: "quantile", uses: alpha, renews: true,
			about: "pinball loss at alpha; leaves are quantiles",
			make: pointwiseOf(func(p *Params) rowLoss {
				return rowLoss{derive: rowByRow(pinballGrads(p.Alpha)), unitH: true, start: quantile, quantile: p.Alpha}
			})},
		{name: "poisson", text: "poisson", output: logMean, uses: poissonStep,
			about: "counts: Poisson deviance",
			make: pointwiseOf(func(p *Params) rowLoss {
				return rowLoss{derive: poissonGrads(p.PoissonMaxDeltaStep), badLabel: zeroOrMore, start: logOfMean}
			})},
		{name: "gamma", text: "gamma", output: logMean, about: "amounts above 0: gamma deviance",
			make: pointwiseOf(func(*Params) rowLoss {
				return rowLoss{derive: gammaGrads, badLabel: aboveZero, start: logOfMean, leastStep: gammaLeastStep}
			})},
		{name: "tweedie", text: "tweedie", output: logMean, uses: tweediePower,
			about: "amounts that are often 0: Tweedie deviance",
			make: pointwiseOf(func(p *Params) rowLoss {
				return rowLoss{derive: tweedieGrads(p.TweedieVariancePower), badLabel: zeroOrMore, start: logOfMean}
			})},
		{name: "lambdarank", text: "lambdarank", ranks: true, make: newRanking,
			uses:  strings.Join([]string{truncationLevel, rankNorm, labelGain, sigmoidFactor}, " "),
			about: "the order of the rows of a query, by what exchanging two would change of NDCG"},
		{name: xendcg, aliases: "xendcg xe_ndcg xe_ndcg_mart xendcg_mart", text: xendcg, ranks: true,
			make: newRanking, about: "the order of the rows of a query, by a cross entropy; faster"},
		{name: softmaxName, aliases: "softmax", classes: true, output: softmax, uses: numClass,
			about: "several classes: log loss of their softmax"},
	}
}

// Objectives returns the names of all objectives.
func Objectives() []string {
	var names []string
	for _, o := range objectives() {
		names = append(names, o.name)
	}
	return names
}

// objectiveTexts lists, for an error message, the objectives that a model file may have, quoted, also fair and mape,
// which only others train (see outputOf). Those of square roots are left out, and of several classes there are two
// examples.
func objectiveTexts() []string {
	var texts []string
	for _, o := range objectives() {
		if !o.classes {
			texts = append(texts, strconv.Quote(o.text))
		}
	}
	return append(texts, `"fair"`, `"mape"`, classExamples)
}

// ObjectiveArgument returns the parameter whose value may follow an objective's name after an @, as alpha does in
// quantile@0.5. It is empty for an objective without one.
func ObjectiveArgument(objective string) string {
	switch objective {
	case "huber", "quantile":
		return alpha
	case "tweedie":
		return tweediePower
	}
	return ""
}

// foreignObjectives has the objectives of LightGBM that cannot be trained here, by name and alias, and what to do
// instead.
var foreignObjectives = map[string]string{
	"fair": noFair, "mape": noMAPE, "mean_absolute_percentage_error": noMAPE,
	oneVsRestName: noOVA, "multiclass_ova": noOVA, "ova": noOVA, "ovr": noOVA,
	"cross_entropy_lambda": "it is cross_entropy with another meaning of weights; use cross_entropy",
	"xentlambda":           "it is cross_entropy with another meaning of weights; use cross_entropy",
	"custom":               "a function cannot travel to another machine",
	"none":                 "a function cannot travel to another machine",
	"null":                 "a function cannot travel to another machine",
	"na":                   "a function cannot travel to another machine",
}

const (
	noFair = "use huber, whose loss is squared near 0 and absolute beyond, too"
	noMAPE = "use regression_l1, with weights that are 1 / max(1, |label|), for the same loss"
	noOVA  = "use multiclass, which has the lower log loss"
)

// CanonicalObjective returns the name of the objective that has this name or alias. The error for any other name says
// what to use instead, or for LightGBM's functions of one's own why there are none.
func CanonicalObjective(name string) (string, error) {
	if o := findObjective(name); o != nil {
		return o.name, nil
	}
	if why, ok := foreignObjectives[name]; ok {
		return "", fmt.Errorf("LightGBM has objective %q, Coppice does not: %s", name, why)
	}
	return "", fmt.Errorf("there is no objective %.40q%s", name, strictyaml.Suggest(name, Objectives()))
}

// checkObjective refuses an unknown objective, and a parameter that is not at its default although only other
// objectives use it: it would have no effect. Errors are *ParamError.
func (p *Params) checkObjective() error {
	chosen := findObjective(p.Objective)
	if chosen == nil {
		_, err := CanonicalObjective(p.Objective)
		return &ParamError{"objective", err.Error()}
	}

	defaults := Defaults()
	for _, o := range objectives() {
		for name := range strings.FieldsSeq(o.uses) {
			s := findParam(name)
			isDefault := reflect.DeepEqual(s.field(p), s.field(&defaults))
			if !isDefault && !slices.Contains(strings.Fields(chosen.uses), name) {
				return &ParamError{name, fmt.Sprintf("has no effect with objective %s; it belongs to %s", chosen.name,
					strings.Join(usersOf(name), " and "))}
			}
		}
	}

	// alpha has no upper bound in the parameter table, since huber's may be any distance.
	if chosen.name == "quantile" && p.Alpha >= 1 {
		return &ParamError{alpha, fmt.Sprintf("%v is not a quantile; use a number between 0 and 1", p.Alpha)}
	}
	return nil
}

// usersOf returns the names of the objectives that use a parameter.
func usersOf(name string) (users []string) {
	for _, o := range objectives() {
		if slices.Contains(strings.Fields(o.uses), name) {
			users = append(users, o.name)
		}
	}
	return users
}

// Ranks reports whether an objective learns the order of the rows of a query, and so needs Data.Group, which says to
// which query each row belongs.
func Ranks(objective string) bool {
	o := findObjective(objective)
	return o != nil && o.ranks
}

// LogOdds reports whether an objective's raw scores are log odds.
func LogOdds(objective string) bool {
	o := findObjective(objective)
	return o != nil && o.output == logOdds
}

// findObjective finds an objective by its name or an alias; nil if there is none.
func findObjective(name string) *objectiveSpec {
	for _, o := range objectives() {
		if o.name == name || slices.Contains(strings.Fields(o.aliases), name) {
			return &o
		}
	}
	return nil
}

// rootText is the objective in the file of a model that predicts square roots of labels (reg_sqrt).
const rootText = "regression sqrt"

// outputOf returns what the raw scores of a model are. text is the objective in a model file, which LightGBM or an
// earlier build of Coppice may have written; ok is false if it is unknown.
func outputOf(text string) (out outputKind, ok bool) {
	if out, _, ok := classesOf(text); ok {
		return out, true
	}
	switch text {
	case "fair", "mape": // not trained here any more; LightGBM and earlier builds wrote them
		return asIs, true
	case rootText, "regression_l1 sqrt", "quantile sqrt", "fair sqrt", "mape sqrt":
		// Only LightGBM writes the last four: here, reg_sqrt is for squared errors only.
		return root, true
	}
	for _, o := range objectives() {
		if o.text == text && !o.classes {
			return o.output, true
		}
	}
	return 0, false
}

// transform turns raw scores, [rows x outputs], into predictions, in place.
func (o outputKind) transform(scores []float64, outputs int) {
	switch o {
	case softmax:
		softmaxAll(scores, outputs)
	case logOdds, oneVsRest:
		Probabilities(scores)
	case logMean:
		exponentials(scores, 1)
	case root:
		for i, s := range scores {
			scores[i] = math.Copysign(float64(s*s), s)
		}
	}
}

// Transform turns raw scores, [rows x NumClass], of a model that is trained with p into predictions, in place. It does
// nothing if the objective is unknown.
func (p *Params) Transform(scores []float64) {
	if out, ok := outputOf(p.objectiveText()); ok {
		out.transform(scores, p.NumClass)
	}
}

// objectiveText returns the text of the objective in a model file. The name of an unknown objective is returned
// unchanged.
func (p *Params) objectiveText() string {
	if p.RegSqrt {
		return rootText
	}
	if o := findObjective(p.Objective); o != nil && o.classes {
		return classesText(o.name, p.NumClass)
	} else if o != nil {
		return o.text
	}
	return p.Objective
}

// packing is the fixed-point format of the gradients and hessians of one tree. A row's gradient g and hessian h are
// integers, multiples of the units g1 and h1, and share 32 bits. A histogram's 64-bit word holds the sum of g over some
// rows in its upper bits and the sum of h in its lower hessianBits bits. Words can be added for up to maxPackedRows
// rows before the lower sum could carry into the upper one or the upper one overflow.
//
// There are two formats. If hessians vary, a row is an int16 g above a uint16 h, and hessianBits is 32. If every row's
// hessian is 1, a row's 32 bits are all g's, the lower sum of a word is the number of rows, and hessianBits is 24.
type packing struct {
	hessianBits uint
	g1, h1      float64 // value of one unit of g and of h
}

// maxPackedRows is the most rows whose sums fit a word. With n rows of varying hessians, n x (2^16-1) < 2^32 and
// n x 2^15 <= 2^31 must hold; with hessians of 1, n < 2^24 and n x 2^23 <= 2^39.
const maxPackedRows = 1 << 16

// The units are such that the largest |g| and h of a tree are this many of them: one less than what the bits can hold,
// because rounding at random may add one.
const (
	maxG16 = 1<<15 - 2
	maxH16 = 1<<16 - 2
	maxG24 = 1<<23 - 2
)

// The two values of packing.hessianBits.
const (
	bitsVaryingHessian = 32
	bitsUnitHessian    = 24
)

// word turns a row's 32 bits into a word of a histogram for this row alone.
func (p packing) word(row uint32) int64 {
	if p.hessianBits == bitsUnitHessian {
		return int64(int32(row))<<bitsUnitHessian | 1
	}
	return int64(int32(row)>>16)<<bitsVaryingHessian | int64(row&0xffff)
}

// sums splits a word of a histogram into its sum of gradients and its sum of hessians.
func (p packing) sums(word int64) (g, h int64) {
	return word >> p.hessianBits, word & (1<<p.hessianBits - 1)
}

// errOneClass reports training data of a single class.
var errOneClass = errors.New("all rows have the same label; nothing can be learnt")

// newObjectives checks the labels of d and returns the objective of each output: one for each class if there are
// several classes, else a single one.
func newObjectives(p *Params, d *Data) ([]objective, error) {
	o := findObjective(p.Objective)
	if o == nil {
		return nil, fmt.Errorf("objective %q", p.Objective)
	}
	if o.classes {
		return newClasses(p, d)
	}
	one, err := o.make(p, d, p.objectiveText())
	return []objective{one}, err
}

// logistic is the logistic loss of the rows with one label, the positive one, against all other rows.
type logistic struct {
	d        *Data
	positive float32    // the positive label
	weight   [2]float64 // factors of the row weights: [0] of all other rows, [1] of positive rows
	pack     packing
}

// fill is objective.fill: rows that are not neighbours are filled one by one.
func (l *logistic) fill(gh []uint32, raw []float64, rows rowSet, lo, hi int, k key) {
	if rows.subset == nil {
		l.fillRows(gh, raw, lo, hi, k)
		return
	}
	for _, r := range rows.subset[lo:hi] {
		l.fillRows(gh, raw, int(r), int(r)+1, k)
	}
}

// weigh replaces the predicted probabilities in g by gradients, and sets h to the hessians. Both are [len(rows)].
func (l *logistic) weigh(rows []uint32, g, h []float64) {
	for i, r := range rows {
		p, y, w := g[i], 0.0, l.weight[0]
		if l.d.Label[r] == l.positive {
			y, w = 1, l.weight[1]
		}
		if l.d.Weight != nil {
			w *= float64(l.d.Weight[r])
		}
		g[i], h[i] = float64((p-y)*w), float64(float64(p*(1-p))*w)
	}
}

// binary is logistic loss on labels 0 and 1.
type binary struct {
	logistic
	heaviest float64 // largest product of a row's and its class's weight
}

// newBinary checks that the labels are 0 and 1 and that rows of both have weight. It weighs the two classes by
// scale_pos_weight or is_unbalance, and finds the largest weight of a row, from which the units of gradients follow.
func newBinary(p *Params, d *Data, _ string) (objective, error) {
	b := &binary{logistic: logistic{d: d, positive: 1, weight: [2]float64{1, p.ScalePosWeight}}}

	// By label, the rows with weight and their largest weight. It is one array, because the workers of a team pass it
	// from one to the next.
	var seen [4]float64
	count, heaviest := seen[:2], seen[2:]

	err := d.eachRow(seen[:], func(r uint32, w float64) error {
		y := d.Label[r]
		if y != 0 && y != 1 {
			return fmt.Errorf("%w: label %v in row %d; the binary objective takes 0 and 1", ErrData, y,
				d.firstRow()+uint64(r))
		}
		if w > 0 {
			count[int(y)]++
			heaviest[int(y)] = max(heaviest[int(y)], w)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	if count[0] == 0 || count[1] == 0 {
		return nil, fmt.Errorf("%w: %w", ErrData, errOneClass)
	}

	if p.IsUnbalance { // the rarer class is weighted up, as LightGBM does
		if count[1] > count[0] {
			b.weight[0] = count[1] / count[0]
		} else {
			b.weight[1] = count[0] / count[1]
		}
	}

	// |gradient| < weight and hessian <= weight/4 for any raw scores, so the units are the same for every tree.
	b.heaviest = max(heaviest[0]*b.weight[0], heaviest[1]*b.weight[1])
	b.pack = packing{hessianBits: bitsVaryingHessian, g1: b.heaviest / maxG16, h1: b.heaviest / 4 / maxH16}

	return b, nil
}

// init returns the log odds of the weighted share of positive rows, or 0 if fromAverage is false.
func (b *binary) init(fromAverage bool) float64 {
	if !fromAverage {
		return 0
	}
	var sum [2]float64
	// The function has no error, and the link keeps one of the team, for which newBooster asks.
	_ = b.d.eachRow(sum[:], func(r uint32, w float64) error {
		sum[int(b.d.Label[r])] += w // without its class's weight, as in LightGBM
		return nil
	})
	return exact.Log(sum[1] / sum[0])
}

func (b *binary) prepare(int, []float64, []uint32, *pool) packing { return b.pack }
func (b *binary) renew(*grower, *Tree, []float64)                 {}
func (b *binary) String() string                                  { return binaryObjective }

func (b *binary) gradients(rows []uint32, g, h []float64) {
	Probabilities(g)
	b.weigh(rows, g, h)
}

// eachRow calls f with every used row of the whole table and its weight, in ascending order, until f returns an error.
// All that f carries from one row to the next has to be in state. In a team the workers take turns: each calls f with
// its own rows, beginning with the state that the worker before it ended with. In the end all workers have the last
// state.
func (d *Data) eachRow(state []float64, f func(r uint32, w float64) error) error {
	return d.link.floatsInTurn(state, func() error { return d.eachOwnRow(f) })
}

// eachOwnRow calls f with every used row of this worker and its weight, in ascending order, until f returns an error.
func (d *Data) eachOwnRow(f func(r uint32, w float64) error) error {
	for i := range d.Used() {
		r := uint32(i)
		if d.Subset != nil {
			r = d.Subset[i]
		}

		w := 1.0
		if d.Weight != nil {
			w = float64(d.Weight[r])
		}

		if err := f(r, w); err != nil {
			return err
		}
	}
	return nil
}
