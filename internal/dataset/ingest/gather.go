package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
)

// store collects a column's values from batches, each in a slot that may be overwritten later. It copies texts, because
// those of a batch are parts of whole records or pages, which they would keep alive.
type store struct {
	values  dataset.Values
	room    int               // expected number of slots
	longest int               // longer texts are replaced by a stand-in; 0 to keep all
	long    map[string]string // copies of long texts, shared by rows with the same one
}

// Rows with the same long text share one copy: a dictionary of a few kilobytes in a file can give one long text to
// every row of a table, and copies of it would fill the memory.
const (
	longText  = 256  // bytes of the shortest long text
	longTexts = 1024 // how many are remembered
)

// putTexts copies the chosen texts into their slots; texts are by row of the batch. Afterwards the store has at least n
// slots. Texts that fill new slots are copied into one string. A text that overwrites a slot gets a string of its own:
// a joint one would stay alive as long as any of its texts.
func (s *store) putTexts(texts []string, chosen []chosen, n int) {
	old, size := len(s.values.Text), 0
	for _, c := range chosen {
		if c.slot >= old && len(texts[c.row]) < longText {
			size += len(texts[c.row])
		}
	}

	s.values.Text = stretch(s.values.Text, n, s.room)
	var fresh strings.Builder
	fresh.Grow(size) // room for all, so that no text is moved later

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

// copyText returns a copy of a text. A text longer than s.longest is replaced by a stand-in that tells it from others.
// All rows with the same long text share a copy.
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
	// Rather than grow, the map begins anew; a text that comes again is then copied once more.
	if s.long == nil || len(s.long) >= longTexts {
		s.long = map[string]string{}
	}

	text = strings.Clone(text)
	s.long[text] = text
	return text
}

// standIn returns a text that stands for one longer than longest: one byte longer than longest, and distinct for
// distinct texts, as it ends in the text's hash.
func standIn(text string, longest int) string {
	hash := fmt.Sprintf("%016x", cell.HashText([]byte(text)))
	return text[:longest+1-len(hash)] + hash
}

// copyChosen copies the chosen values of a batch's column into their slots.
func (s *store) copyChosen(v *dataset.Values, chosen []chosen) {
	// n is the number of slots needed.
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

	// Nil stands for no nulls. Once a batch has had some, each later row has to say that it is none, as its slot may
	// have been null.
	if v.Null != nil || s.values.Null != nil {
		s.values.Null = stretch(s.values.Null, n, s.room)
		for _, c := range chosen {
			s.values.Null[c.slot] = v.IsNull(c.row)
		}
	}
}

// stretch returns s with at least n elements. As long as less than a quarter of room is filled, it allocates no more
// than needed; from then on it allocates all of room at once.
func stretch[T any](s []T, n, room int) []T {
	if n <= len(s) {
		return s
	}
	if n < room/4 {
		room = n
	}
	return slices.Grow(s, max(n, room)-len(s))[:n]
}

// finish returns the values of the first n slots, and empties the store.
func (s *store) finish(n int) dataset.Values {
	v := s.values
	// Null ends at the last slot that was filled since the first null came. Slots beyond it were filled before.
	if v.Null != nil && len(v.Null) < n {
		v.Null = append(v.Null, make([]bool, n-len(v.Null))...)
	}
	*s = store{}
	return v
}

// repackRows is how many rows repack processes before it goes on to the next column: their texts fit the second-level
// cache.
const repackRows = 2048

// repackTexts returns, for each column of the survey, the texts of the sampled rows of train, or nil if it is not a
// column of texts. It empties the stores of the text columns.
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

// repack copies the texts of columns so that those of one column are contiguous. In the order of arrival, they lie
// between those of other columns, and every later pass over one column would miss the cache at each value. If ctx ends,
// it stops midway.
func repack(ctx context.Context, threads int, columns []*dataset.Values) {
	dataset.Parallel(threads, threads, func(t int) {
		mine := columns[t*len(columns)/threads : (t+1)*len(columns)/threads]
		packed := make([]strings.Builder, len(mine))

		rows := 0
		for _, v := range mine {
			rows = max(rows, len(v.Text))
		}

		// Texts are copied in the order in which they lie now: some rows of each column in turn.
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
