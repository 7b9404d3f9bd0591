package backtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// nightModel is what was trained on a night.
type nightModel struct {
	night     int
	trainRows int
	candidate int
	trees     int
	sha256    string // of the model's text
	label     dataset.LabelInfo
	weight    string
	group     string
	scorer    *scorer.Scorer
	judged    *scorer.Scorer // what the gate's rules compare; scorer, unless there is a final training

	// For the next night to continue from, if it does.
	text     []byte
	manifest *dataset.Manifest
}

// nightSpec returns the dataset.yaml of a night: that of the backtest, with a split by days.
func (b *Runner) nightSpec(night int, source string) *dataset.Spec {
	s := *b.Table
	s.Source = dataset.SourceSpec{Files: []string{source}}
	s.CSV = dataset.CSVSpec{}
	// the delay already ensures that no label is used before its time
	s.Label.Matures, s.Label.At, s.Label.AsOf = 0, "", ""
	s.Encodings.Like = "" // a version that did not exist yet
	s.Encodings.Final = b.Spec.Final != nil
	// the sample is not needed: the next day is scored from the table itself
	s.Sample.Rows = 1

	// If the table is split by time, its statistics are ordered by it, and the time itself is not a feature.
	if s.Split.By == dataset.SplitByTime {
		s.Encodings.Order.By = s.OrderBy()
		if s.Encodings.Order.Column == "" {
			s.Encodings.Order.Column = s.Split.Column
		}
		s.Drop = append(slices.Clone(s.Drop), s.Split.Column)
	}

	first, valid, calib, test, last := b.Spec.days(night)
	portion := func(from, to int) dataset.Portion {
		var p dataset.Portion
		for day := from; day < to; day++ {
			p.Values = append(p.Values, dayName(day))
		}
		return p
	}
	s.Split = dataset.SplitSpec{By: dataset.SplitByColumn, Column: dayColumn, Train: portion(first, valid),
		Valid: portion(valid, calib),
		Calib: portion(calib, test), Test: portion(test, last+1)}
	return &s
}

// trainNight trains a night's candidates on the days known by then, and calibrates the best on valid.
func (b *Runner) trainNight(ctx context.Context, night int) (g *nightModel, err error) {
	work, err := os.MkdirTemp(b.dir, "night-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)

	first, _, _, _, last := b.Spec.days(night)
	source := filepath.Join(work, "table")
	if err := b.daily.link(source, first, last); err != nil {
		return nil, err
	}
	stage, spec := stager.Stager{Scratch: work, Threads: b.Threads}, b.nightSpec(night, source)
	if b.Spec.warm(night) && !spec.Encodings.Off { // the splits of the previous model must keep their meaning
		stage.Like = b.models[night-1].manifest
		spec.Encodings.Like = stage.Like.Name + "@" + stage.Like.Version
	}
	staged, err := stage.Stage(ctx, spec, stager.Destination{Dir: filepath.Join(work, "data")})
	if err != nil {
		return nil, err
	}
	ds, err := dataset.Open(staged.Place)
	if err != nil {
		return nil, err
	}
	defer ds.Close()

	table := fit.NewTable(ds)
	input, err := b.input(ds.Manifest, night)
	if err != nil {
		return nil, err
	}
	o, candidate, err := b.best(ctx, table, &ds.Manifest.Label, input)
	if err != nil {
		return nil, err
	}

	var text bytes.Buffer
	if _, err := o.Model.WriteTo(&text); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text.Bytes())
	m := ds.Manifest
	g = &nightModel{night: night, trainRows: ds.Split(dataset.TrainSplit).Rows / m.Copies(), candidate: candidate,
		trees:  o.Model.Iterations(),
		sha256: hex.EncodeToString(sum[:]), label: m.Label, weight: m.Weight, group: m.Group}
	if b.Spec.warm(night + 1) {
		g.text, g.manifest = text.Bytes(), m
	}
	if g.scorer, err = b.scorerOf(table, ds, o, nil); err != nil || b.Spec.Final == nil {
		g.judged = g.scorer
		return g, err
	}
	return g, b.trainFinal(ctx, g, table, ds, b.Spec.params[candidate])
}

// trainFinal replaces the night's model by one of the same configuration and number of trees on all days that the night
// knows. The gate's rules still compare judged models.
func (b *Runner) trainFinal(ctx context.Context, g *nightModel, table *fit.Table, ds *dataset.Dataset,
	p gbt.Params) error {
	p.NumIterations, p.EarlyStoppingRound, p.NumClass = max(1, g.trees), 0, max(1, len(g.label.Classes))
	rows := []sweep.Rows{{Split: sweep.Train}, {Split: sweep.Valid}, {Split: sweep.Calib}, {Split: sweep.Test}}
	o, err := table.Train(ctx, fit.Request{Params: p, Metric: b.Spec.metric, Threads: b.Threads, Rows: rows,
		Final: true})
	if err != nil {
		return fmt.Errorf("final training: %w", err)
	}
	g.judged = g.scorer
	g.scorer, err = b.scorerOf(table, ds, o, g.judged)
	return err
}

// input returns the model that a night continues, in terms of its own dataset; nil if it starts from nothing. The
// previous night knew fewer days, so nothing leaks from the future, and its training days precede those used here for
// early stopping and selection.
func (b *Runner) input(m *dataset.Manifest, night int) (*gbt.InputModel, error) {
	if !b.Spec.warm(night) {
		return nil, nil
	}
	before := b.models[night-1]
	in, err := fit.Input(m, before.manifest, before.text)
	if err != nil {
		return nil, fmt.Errorf("warm_start: %w", err)
	}
	return in, nil
}

// best trains all candidates and returns the one with the best score on valid; on a tie the first.
func (b *Runner) best(ctx context.Context, table *fit.Table, label *dataset.LabelInfo,
	input *gbt.InputModel) (best *fit.Evaluated, candidate int, err error) {
	valid := sweep.Rows{Split: sweep.Valid}
	for i, p := range b.Spec.params {
		if err := fit.CheckClasses(p.Objective, label); err != nil {
			return nil, 0, err
		}
		p.NumClass = max(1, len(label.Classes))
		o, err := table.Train(ctx, fit.Request{Params: p, Metric: b.Spec.metric, Valid: &valid, Threads: b.Threads,
			Input: input})
		if err != nil {
			return nil, 0, fmt.Errorf("candidate %d: %w", i, err)
		}
		if best == nil || b.Spec.metric.Maximize && o.Score > best.Score || !b.Spec.metric.Maximize &&
			o.Score < best.Score {
			best, candidate = o, i
		}
	}
	return best, candidate, nil
}

// scorerOf makes a model predict raw rows, as a registered version does. judged is nil but for the model of a final
// training.
func (b *Runner) scorerOf(table *fit.Table, ds *dataset.Dataset, o *fit.Evaluated,
	judged *scorer.Scorer) (*scorer.Scorer, error) {
	var levels *dataset.Levels
	enc, name := ds.Manifest.Encoding(), dataset.LevelsFile
	if judged != nil {
		enc, name = ds.Manifest.FinalEncoding()
	}
	if slices.ContainsFunc(ds.Manifest.Files, func(f dataset.FileInfo) bool { return f.Name == name }) {
		// the folder is removed, but the model is kept
		data, err := os.ReadFile(filepath.Join(ds.Dir(), name))
		if err != nil {
			return nil, err
		}
		if levels, err = dataset.ReadLevels(data, enc.Tables); err != nil {
			return nil, err
		}
	}
	encoding, kept := scorer.Compact(o.Model, enc, levels)

	var c *calibrate.Calibrator
	switch {
	case judged != nil && judged.Calibrator != nil:
		var err error
		if c, err = table.Level(o.Model, judged.Calibrator, b.Threads, sweep.Rows{Split: sweep.Calib},
			sweep.Rows{Split: sweep.Test}); err != nil {
			return nil, err
		}
	case judged != nil:
	case ds.Manifest.Label.Kind == dataset.Binary:
		rows, err := table.Select(sweep.Rows{Split: sweep.Calib})
		if err != nil {
			return nil, err
		}
		raw, err := o.Model.PredictBinned(&rows.Data, b.Threads)
		if err != nil {
			return nil, err
		}
		choice, err := calibrate.Choose(raw, rows.Label, rows.Weight, b.Spec.Seed)
		if err != nil {
			return nil, err
		}
		c = choice.Calibrator
	}
	return scorer.New(o.Model, c, encoding, kept)
}

// scored is a model's predictions for the rows of some days.
type scored struct {
	label  []float32
	weight []float32
	group  []uint64
	pred   []float64
}

// score predicts with a model of a night all labelled rows of the days from first to last from raw values, as
// production would.
func (b *Runner) score(ctx context.Context, g *nightModel, model *scorer.Scorer, first, last int) (*scored, error) {
	var files []table.File
	for day := first; day <= last; day++ {
		path, ok := b.daily.files[day]
		if !ok {
			return nil, fmt.Errorf("%w on %s", errNoRows, dayName(day))
		}
		files = append(files, table.File{URI: path, Path: path})
	}
	t, err := table.Open(files, table.Options{Threads: b.Threads})
	if err != nil {
		return nil, err
	}

	wanted := slices.Concat(model.Columns(), []string{g.label.Column})
	for _, extra := range []string{g.weight, g.group} {
		if extra != "" {
			wanted = append(wanted, extra)
		}
	}
	slices.Sort(wanted)
	labels := ingest.NewLabels(g.label, b.Table.Missing)
	out := &scored{}
	keys := cell.Keys{Markers: cell.NewMarkers(b.Table.Missing)}
	err = t.Read(ctx, slices.Compact(wanted), 1<<14, func(batch *table.Batch) error {
		label, places, err := labels.Read(batch)
		if err != nil {
			return err
		}
		if places != nil {
			batch = batch.Keep(places)
		}
		_, pred, _, err := model.Batch(batch, nil, b.Threads, &cell.Inputs{})
		if err != nil {
			return err
		}
		out.label = append(out.label, label...)
		out.pred = append(out.pred, pred...)
		if g.group != "" {
			v := batch.Column(g.group)
			for i := range batch.Rows {
				out.group = append(out.group, keys.Hash(v, i, batch.Row(i)))
			}
		}
		if g.weight == "" {
			return nil
		}
		v := batch.Column(g.weight)
		for i := range batch.Rows {
			w, ok := labels.Number(v, i)
			if !ok || w < 0 {
				return fmt.Errorf("%w with a weight on %s", errNoRows, dayName(first))
			}
			out.weight = append(out.weight, float32(w))
		}
		return nil
	})
	return out, err
}

// input returns the input of a metric.
func (s *scored) input() metric.Input {
	return metric.Input{Label: s.label, Weight: s.weight, Group: s.group, Pred: s.pred}
}
