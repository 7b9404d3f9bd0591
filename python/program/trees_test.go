package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"coppice/internal/gbt"
	"coppice/internal/must"
)

const features = 3

// model is trees of two nodes, the text of which the package would send.
func model(tb testing.TB, objective string, trees int) []byte {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	m := &gbt.Model{Objective: objective}
	for i := range features {
		m.FeatureNames = append(m.FeatureNames, fmt.Sprint("f", i))
		m.FeatureInfos = append(m.FeatureInfos, "none")
	}
	for range trees {
		m.Trees = append(m.Trees, &gbt.Tree{
			Feature:   []int{rng.IntN(features), rng.IntN(features)},
			Threshold: []float64{rng.NormFloat64(), rng.NormFloat64()},
			Decision:  []uint8{8, 10}, Left: []int{1, ^0}, Right: []int{^2, ^1},
			Gain: make([]float64, 2), LeafValue: []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()},
			LeafWeight: make([]float64, 3), LeafCount: make([]int, 3), InternalValue: make([]float64, 2),
			InternalWeight: make([]float64, 2), InternalCount: make([]int, 2), Shrinkage: 1})
	}
	var text bytes.Buffer
	must.Get(m.WriteTo(&text))(tb)
	return text.Bytes()
}

// sent is what the package writes: a model's text and rows.
func sent(text []byte, rows []float64) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	out, _ = binary.Append(append(out, text...), binary.LittleEndian, rows)
	return out
}

// trickle gives a few bytes at a time, as a pipe may.
type trickle struct{ r io.Reader }

func (t trickle) Read(p []byte) (int, error) { return t.r.Read(p[:min(len(p), 1+len(p)/3)]) }

func TestTrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, c := range []struct {
		objective     string
		rows, threads int
	}{
		{"regression", 0, 1}, {"regression", 1, 2}, {"binary sigmoid:1", 2*rowsOfThread + 5, 1},
		{"regression", 2 * rowsOfThread, 2}, {"multiclass num_class:3", rowsOfThread + 700, 1},
	} {
		text := model(t, c.objective, 6)
		rows := make([]float64, c.rows*features)
		for i := range rows {
			if rows[i] = rng.NormFloat64(); rng.IntN(9) == 0 {
				rows[i] = math.NaN()
			}
		}
		m := must.Get(gbt.ReadModel(bytes.NewReader(text)))(t)
		want := make([]float64, c.rows*m.Outputs())
		for r := range c.rows {
			m.PredictRow(rows[r*features:][:features], want[r*m.Outputs():][:m.Outputs()])
		}

		var got bytes.Buffer
		if err := trees(trickle{bytes.NewReader(sent(text, rows))}, &got, c.threads); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if bits, _ := binary.Append(nil, binary.LittleEndian, want); !bytes.Equal(got.Bytes(), bits) {
			t.Errorf("%+v: got other scores, or %d bytes, want those of PredictRow in %d bytes", c, got.Len(),
				len(bits))
		}
	}
}

// broken is a pipe whose other end is gone.
type broken struct{}

func (broken) Read([]byte) (int, error)  { return 0, errors.New("broken input") }
func (broken) Write([]byte) (int, error) { return 0, errors.New("broken output") }

// TestTreesRefused: input that is cut or too long, and pipes that break on either side, end it with an error that says
// where.
func TestTreesRefused(t *testing.T) {
	text := model(t, "regression", 1)
	whole := sent(text, make([]float64, 10*features))
	for what, c := range map[string]struct {
		in   io.Reader
		out  io.Writer
		want string
	}{
		"an empty input": {strings.NewReader(""), io.Discard, "length of the model's text: EOF"},
		"a model too long": {strings.NewReader("\xff\xff\xff\xff\xff\xff\xff\xff"), io.Discard,
			"a model of 18446744073709551615 bytes"},
		"half a model": {bytes.NewReader(whole[:len(text)/2]), io.Discard, "model file, line"},
		"half a row": {bytes.NewReader(whole[:len(whole)-9]), io.Discard,
			"the rows end 15 bytes into one of 24"},
		"an input that breaks":  {io.MultiReader(bytes.NewReader(whole), broken{}), io.Discard, "broken input"},
		"an output that breaks": {bytes.NewReader(whole), broken{}, "broken output"},
	} {
		if err := trees(c.in, c.out, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", what, err, c.want)
		}
	}
}

// FuzzTrees: whatever comes is scored or refused.
func FuzzTrees(f *testing.F) {
	text := model(f, "regression", 2)
	f.Add(sent(text, make([]float64, 4*features)))
	f.Add(sent(text, make([]float64, 4*features))[:9+len(text)])
	f.Add(sent(model(f, "multiclass num_class:3", 3), []float64{1, math.NaN(), -1}))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if err := trees(bytes.NewReader(in), &out, 1); err == nil && out.Len()%8 != 0 {
			t.Errorf("got %d bytes, want whole scores", out.Len())
		}
	})
}
