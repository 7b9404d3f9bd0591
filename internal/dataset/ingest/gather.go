package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
)

// store collects values from batches, each in a slot that may be overwritten later. It copies texts: in the batch they
// are parts of whole records or pages, which they would keep alive.
type store struct {
	values  dataset.Values
	room    int               // expected number of slots
	longest int               // longer texts are replaced by a stand-in; 0 to keep all
	long    map[string]string // copies of long texts, shared by rows with the same one
}

// Rows with the same long text share one copy, because a dictionary of a few kilobytes can give it to every row of a
// table.
const (
	longText  = 256
	longTexts = 1024 // how many are remembered
)

// putTexts copies the texts that fill new slots into one string. Those that overwrite a slot get one each: otherwise a
// few that stay would keep all the others alive. Afterwards there are n slots.
func (s *store) putTexts(texts []string, chosen []chosen, n int) {
	old, size := len(s.values.Text), 0
	for _, c := range chosen {
		if c.slot >= old && len(texts[c.row]) < longText {
			size += len(texts[c.row])
		}
	}

	s.values.Text = stretch(s.values.Text, n, s.room)
	var fresh strings.Builder
	fresh.Grow(size)

	for _, c := range chosen {
		text := texts[c.row]
		if c.slot < old || len(text) >= longText {
			s.values.Text[c.slot] = s.copyText(text)
			continue
		}

		from := fresh.Len()
		fresh.WriteString(text)
		s.values.Text[c.slot] = fresh.String()[from:]
	}
}

// copyText returns a copy of a text. Of a long one there is one copy for all rows, and one above s.longest is replaced
// by a stand-in that tells it from others.
func (s *store) copyText(text string) string {
	if s.longest > 0 && len(text) > s.longest {
		return standIn(text, s.longest)
	}

	if len(text) < longText {
		return strings.Clone(text)
	}

	if have, ok := s.long[text]; ok {
		return have
	}
	if s.long == nil || len(s.long) >= longTexts {
		s.long = map[string]string{}
	}

	text = strings.Clone(text)
	s.long[text] = text
	return text
}

// standIn returns a text one byte longer than longest that is distinct for distinct texts.
func standIn(text string, longest int) string {
	hash := fmt.Sprintf("%016x", cell.HashText([]byte(text)))
	return text[:longest+1-len(hash)] + hash
}

// copyChosen copies the chosen values of a batch into their slots.
func (s *store) copyChosen(v *dataset.Values, chosen []chosen) {
	n := 0
	for _, c := range chosen {
		n = max(n, c.slot+1)
	}
	if n == 0 {
		return
	}

	s.values.Type, s.values.Unit = v.Type, v.Unit

	switch v.Type {
	case dataset.Text:
		s.putTexts(v.Text, chosen, n)
	case dataset.Float:
		s.values.Float = stretch(s.values.Float, n, s.room)
		for _, c := range chosen {
			s.values.Float[c.slot] = v.Float[c.row]
		}
	default:
		s.values.Int = stretch(s.values.Int, n, s.room)
		for _, c := range chosen {
			s.values.Int[c.slot] = v.Int[c.row]
		}
	}

	if v.Null != nil || s.values.Null != nil {
		s.values.Null = stretch(s.values.Null, n, s.room)
		for _, c := range chosen {
			s.values.Null[c.slot] = v.IsNull(c.row)
		}
	}
}

// stretch makes s at least n long; once a good part is filled, it allocates room for all.
func stretch[T any](s []T, n, room int) []T {
	if n <= len(s) {
		return s
	}
	if n < room/4 {
		room = n
	}
	return slices.Grow(s, max(n, room)-len(s))[:n]
}

// finish trims all slices to length n and gives up ownership of them.
func (s *store) finish(n int) dataset.Values {
	v := s.values
	if v.Null != nil && len(v.Null) < n {
		v.Null = append(v.Null, make([]bool, n-len(v.Null))...)
	}
	*s = store{}
	return v
}

// repackRows is how many rows are processed before the next column: their texts fit the second-level cache.
const repackRows = 2048

// repackTexts gathers the sampled texts of all text columns; other columns give nil.
func (s *survey) repackTexts(ctx context.Context, train *trainSample) []*dataset.Values {
	samples := make([]*dataset.Values, len(s.columns))
	var texts []*dataset.Values
	for i, c := range s.columns {
		if c.sample.values.Type == dataset.Text && ctx.Err() == nil {
			raw := c.sample.finish(s.sampler.used())
			sample := raw.Pick(train.places)
			samples[i] = &sample
			texts = append(texts, &sample)
		}
	}
	if ctx.Err() == nil {
		repack(ctx, s.threads, texts)
	}
	return samples
}

// repack copies the texts of samples so that those of one column are contiguous. In the order of arrival, every later
// pass over a column would miss the cache at each value.
func repack(ctx context.Context, threads int, columns []*dataset.Values) {
	dataset.Parallel(threads, threads, func(t int) {
		mine := columns[t*len(columns)/threads : (t+1)*len(columns)/threads]
		packed := make([]strings.Builder, len(mine))

		rows := 0
		for _, v := range mine {
			rows = max(rows, len(v.Text))
		}

		for from := 0; from < rows && ctx.Err() == nil; from += repackRows {
			for j, v := range mine {
				for _, text := range v.Text[min(from, len(v.Text)):min(from+repackRows, len(v.Text))] {
					packed[j].WriteString(text)
				}
			}
		}

		if ctx.Err() != nil {
			return
		}
		for j, v := range mine {
			all := packed[j].String()
			for i, text := range v.Text {
				v.Text[i], all = all[:len(text)], all[len(text):]
			}
		}
	})
}
