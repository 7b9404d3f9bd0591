package ingest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
)

// Codes of warnings.
const (
	WarnConstant    = "constant"     // the column has one value
	WarnAllMissing  = "all_missing"  // the column has no value
	WarnIDLike      = "id_like"      // almost every row has a distinct value
	WarnLeak        = "leak"         // the column alone predicts the label almost perfectly
	WarnKeyless     = "keyless"      // rows have no key to split by
	WarnFewRows     = "few_rows"     // a split has too few rows to measure or learn much
	WarnRateDiffers = "rate_differs" // a split's share of positive rows differs from train's
	WarnDropped     = "dropped"      // a column is not a feature, because nothing can be learnt from it
	WarnCode        = "extreme_code" // a number far from all others is likely a code
	WarnUnripe      = "unripe"       // the newest row, from which the age of labels is counted, may be wrong
	WarnSpelling    = "spelling"     // a class is written in several ways
	WarnOdd         = "odd_texts"    // all texts of a column, or all but a few, are numbers, or times
	WarnRare        = "rare_class"   // a class has one row
	WarnUnlearnt    = "unlearnt"     // a class has no row of train
	WarnFormat      = "format_open"  // the values of a column do not tell how it is to be read
	HintFormat      = "format"       // the texts of a column are read as numbers or times
	HintIDs         = "ids"          // whole numbers may be ids
	HintKey         = "key"          // the key of a split is not a feature
	HintIndex       = "index"        // the index of a pandas.DataFrame is not a feature
)

const (
	idShare   = 0.95 // distinct categories per row from which a column looks like an id
	idRows    = 100  // least sampled rows to judge by
	leakScore = 0.99 // AUC or R2 of a single feature
	leakRows  = 100
	fewRows   = 1000
)

// warnings reports what is worth knowing about one feature: nothing present, one value, an id, or one that gives the
// label away. Leaks are looked for only with leakRows rows or more.
func (s *columnSurvey) warnings(f *built, bins []uint8, train *trainSample, label dataset.LabelKind,
	folds *folded) []dataset.Warning {
	var out []dataset.Warning
	warn := func(code, format string, args ...any) {
		out = append(out, dataset.Warning{Code: code, Column: f.Name, Text: fmt.Sprintf(format, args...)})
	}

	if s.feature.auto {
		return nil // not requested: a useless one is simply left out
	}
	if s.present == 0 {
		warn(WarnAllMissing, "every value is missing: the column is not used as a feature")
		return out
	}
	s.warnOfOdd(warn)

	constant := f.Range != nil && f.Range.Min == f.Range.Max || f.Kind == dataset.Categorical && f.different == 1
	if constant && f.MissingBin < 0 {
		warn(WarnConstant, "every row has the same value; drop the column")
	}

	idLike := f.Kind == dataset.Categorical && float64(f.different) >= idShare*float64(f.present) ||
		f.Kind == dataset.Numeric && f.whole && f.different == f.present
	if f.present >= idRows && idLike {
		every := "every value is unique"
		if f.different < f.present {
			every = fmt.Sprintf("%d of %d sampled values are unique", f.different, f.present)
		}
		warn(WarnIDLike, "%s (looks like an id); consider drop: [%s]", every, f.Name)
	} else if !constant {
		f.warnHints(warn)
	}

	if len(train.labels) < leakRows {
		return out
	}

	switch label {
	case dataset.Binary:
		if auc := folds.fold(bins, train).auc(); auc >= leakScore {
			warn(WarnLeak, "the column alone ranks the label with an AUC of %.4f on rows that it was not fitted to; "+
				"possible target leakage: is this column available at prediction time?", auc)
		}
	case dataset.Classes:
		if share := folds.classesExplained(bins, train); share >= leakScore {
			warn(WarnLeak,
				"the column alone explains %.2f %% of the variance of the label's classes on rows that it was "+
					"not fitted to; possible target leakage: is this column available at prediction time?", 100*share)
		}
	default:
		r2 := folds.fold(bins, train).r2()
		if r2 < leakScore {
			break
		}
		warn(WarnLeak, "the column alone explains %.2f %% of the label's variance on rows that it was not fitted "+
			"to; possible target leakage: is this column available at prediction time?", 100*r2)
	}
	return out
}

// leakFolds is the number of folds of the sample: each bin's label is learnt on all folds but one and applied to that
// one, so that a column of many rare categories does not seem to predict what it merely memorises.
const leakFolds = 5

// leakFold returns the fold of a table row.
func leakFold(row int64) uint8 { return encode.Fold(cell.HashRow(row), leakFolds) }

// leakPrior is the weight, in rows, of the overall mean in each bin: just enough to decide for bins that other folds
// lack.
const leakPrior = 0.01

// folded is the prediction of a single feature: rows in the same bin and fold get the same. Of thousands of features it
// is used again.
type folded struct {
	all    foldedGroups
	groups []foldedGroup // with rows
	mean   float64       // mean label of all rows
}

// foldedGroup is the rows of one bin in one fold.
type foldedGroup struct {
	predicted    float64 // mean label of the same bin in the other folds
	rows         float64
	positive     float64 // rows with a label above 0
	sum, squares float64 // of labels
}

// foldedGroups are the groups by fold and bin.
type foldedGroups [leakFolds][256]foldedGroup

// groupLabels adds up labels by fold and bin.
func (groups *foldedGroups) groupLabels(bins []uint8, train *trainSample) {
	clear(groups[:])
	for i, bin := range bins {
		g := &groups[train.folds[i]][bin]
		y := float64(train.labels[i])
		g.rows++
		g.sum += y
		g.squares += y * y
		if y > 0 {
			g.positive++
		}
	}
}

// groupBinary is groupLabels for labels 0 and 1: rows are counted in the lower half of a word, positive ones in the
// upper half.
func (groups *foldedGroups) groupBinary(bins []uint8, train *trainSample) {
	var counts [leakFolds * 256]uint64
	labels, folds := train.labels[:len(bins)], train.folds[:len(bins)]

	for i, bin := range bins {
		positive := uint64(0) // without a branch, which would be mispredicted half of the time
		if labels[i] > 0 {
			positive = 1 << 32
		}
		counts[uint(folds[i])<<8|uint(bin)] += positive + 1
	}

	for i, n := range counts {
		rows, positive := float64(uint32(n)), float64(n>>32)
		groups[i>>8][i&255] = foldedGroup{rows: rows, positive: positive, sum: positive, squares: positive}
	}
}

// fold predicts each row's label by the mean of its bin in the other folds.
func (f *folded) fold(bins []uint8, train *trainSample) *folded {
	if train.binary {
		f.all.groupBinary(bins, train)
	} else {
		f.all.groupLabels(bins, train)
	}
	return f.predict()
}

// predict predicts each group by the mean label of the same bin in the other folds, and a little of the mean of all
// rows there. Groups without rows are left out.
func (f *folded) predict() *folded {
	var perFold [leakFolds]foldedGroup
	var perBin [256]foldedGroup
	var all foldedGroup

	for fold := range f.all {
		for bin, g := range f.all[fold] {
			perFold[fold].rows, perFold[fold].sum = perFold[fold].rows+g.rows, perFold[fold].sum+g.sum
			perBin[bin].rows, perBin[bin].sum = perBin[bin].rows+g.rows, perBin[bin].sum+g.sum
			all.rows, all.sum = all.rows+g.rows, all.sum+g.sum
		}
	}

	f.groups, f.mean = f.groups[:0], all.sum/max(1, all.rows)
	for fold := range f.all {
		mean := (all.sum - perFold[fold].sum) / max(1, all.rows-perFold[fold].rows)
		for bin, g := range f.all[fold] {
			if g.rows > 0 {
				g.predicted = (perBin[bin].sum - g.sum + leakPrior*mean) / (perBin[bin].rows - g.rows + leakPrior)
				f.groups = append(f.groups, g)
			}
		}
	}
	return f
}

// auc is the area under the ROC curve of the predictions, with ties counting half; 0 if there is only one class.
func (f *folded) auc() float64 {
	slices.SortFunc(f.groups, func(a, b foldedGroup) int { return cmp.Compare(a.predicted, b.predicted) })

	area, negatives, positives := 0.0, 0.0, 0.0
	for from := 0; from < len(f.groups); {
		to, p, n := from, 0.0, 0.0
		for ; to < len(f.groups) && f.groups[to].predicted == f.groups[from].predicted; to++ {
			p += f.groups[to].positive
			n += f.groups[to].rows - f.groups[to].positive
		}

		area += p * (negatives + n/2)
		negatives, positives, from = negatives+n, positives+p, to
	}

	if negatives == 0 || positives == 0 {
		return 0
	}
	return area / (negatives * positives)
}

// classesExplained is r2 over the indicators of all classes.
func (f *folded) classesExplained(bins []uint8, train *trainSample) float64 {
	rest, all := 0.0, 0.0
	one := trainSample{labels: make([]float32, len(bins)), folds: train.folds}
	for c := range train.classes {
		for i := range bins {
			one.labels[i] = 0
			if int(train.labels[i]) == c {
				one.labels[i] = 1
			}
		}
		f.all.groupBinary(bins, &one)
		r, a := f.predict().squares()
		rest, all = rest+r, all+a
	}
	if all <= 0 {
		return 0
	}
	return 1 - rest/all
}

// r2 is the share of the label's variance that the predictions explain.
func (f *folded) r2() float64 {
	rest, all := f.squares()
	if all <= 0 {
		return 0
	}
	return 1 - rest/all
}

// squares are the sums of the squared errors of the predictions and of the mean.
func (f *folded) squares() (rest, all float64) {
	for _, g := range f.groups {
		rest += g.squares - 2*g.predicted*g.sum + g.rows*g.predicted*g.predicted
		all += g.squares - 2*f.mean*g.sum + g.rows*f.mean*f.mean
	}
	return rest, all
}

// splitWarnings reports what is worth knowing about the splits; learnt are the classes that train has.
func splitWarnings(manifest *dataset.Manifest, learnt []bool) []dataset.Warning {
	var out []dataset.Warning
	var absent []string // classes by which a model is judged, such as one that came in the last days
	for i, name := range manifest.Label.Classes {
		if !learnt[i] {
			absent = append(absent, name)
		}
	}
	if absent != nil {
		out = append(out, dataset.Warning{Code: WarnUnlearnt, Column: manifest.Label.Column,
			Text: fmt.Sprintf("no row of train has %.200q, so no trial learns it, and each row of it counts against "+
				"the model: leave its rows out, or split otherwise", absent)})
	}
	train := manifest.Splits[0]
	trainRows := float64(manifest.TableRows(train.Name))

	few, at := "", 0
	for _, s := range manifest.Splits {
		rows := manifest.TableRows(s.Name)
		switch {
		case rows < fewRows && few == "":
			few, at = fmt.Sprintf("%s has only %d rows", s.Name, rows), len(out)
		case rows < fewRows:
			few += fmt.Sprintf(", %s %d", s.Name, rows)
		}

		if manifest.Label.Kind != dataset.Binary {
			continue
		}
		// Half as much again or a third less, and beyond chance (4 standard errors).
		ratio := s.LabelMean / train.LabelMean
		pooled := (s.LabelMean*float64(rows) + train.LabelMean*trainRows) / (float64(rows) + trainRows)
		chance := math.Sqrt(pooled * (1 - pooled) * (1/float64(rows) + 1/trainRows))
		if (ratio > 1.5 || ratio < 1/1.5) && math.Abs(s.LabelMean-train.LabelMean) > 4*chance {
			out = append(out, dataset.Warning{Code: WarnRateDiffers,
				Text: fmt.Sprintf("%.3g %% of the rows of %s are positive, but %.3g %% of train's", 100*s.LabelMean,
					s.Name, 100*train.LabelMean)})
		}
	}
	if few != "" {
		out = slices.Insert(out, at, dataset.Warning{Code: WarnFewRows, Text: few})
	}
	return out
}
