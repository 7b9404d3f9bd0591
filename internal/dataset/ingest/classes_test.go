package ingest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// TestClasses: texts of more than two values are classes by themselves, numbers where the spec says so, and labels are
// the places of their names.
func TestClasses(t *testing.T) {
	var texts, numbers strings.Builder
	texts.WriteString("x,y\n")
	numbers.WriteString("x,y\n")
	for i := range 300 {
		fmt.Fprintf(&texts, "%d,%s\n", i, []string{"red", " blue", "green"}[i%3])
		fmt.Fprintf(&numbers, "%d,%s\n", i, []string{"10", "0", "2.0"}[i%3])
	}
	texts.WriteString("7,\n") // has no label
	for name, tc := range map[string]struct {
		spec, csv string
		want      []string
		labels    []float32 // of the first rows
	}{
		"texts": {"label: y\n", texts.String(), []string{"blue", "green", "red"}, []float32{2, 0, 1}},
		"said so": {"label: {column: y, kind: classes}\n",
			texts.String(), []string{"blue", "green", "red"}, []float32{2, 0, 1}},
		"numbers": {"label: {column: y, kind: classes}\n",
			numbers.String(), []string{"0", "2", "10"}, []float32{2, 0, 1}},
		"0, 1 and 2": {"label: {column: y, kind: classes}\n",
			"x,y\n1,1\n2,0\n3,2\n4,1\n", []string{"0", "1", "2"}, []float32{1, 0, 2}},
		"spellings": {"label: {column: y, kind: classes}\n", "x,y\n1,01\n2,1.0\n3,b\n4,1\n5,+1\n6,2.0\n7,01\n",
			[]string{"01", "1", "2", "b"}, []float32{0, 1, 3}},
		"only two": {"label: {column: y, kind: classes}\n",
			"x,y\n1,b\n2,a\n3,a\n", []string{"a", "b"}, []float32{1, 0, 0}},
		"of integers": {"label: {column: y, kind: classes}\n", "x,y\n1,9007199254740993\n2,3\n3,5\n", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustStage(t, tc.spec, tc.csv)
			l := s.Manifest.Label
			if l.Kind != dataset.Classes || len(l.Classes) < 2 || tc.want != nil && !slices.Equal(l.Classes, tc.want) {
				t.Fatalf("the label is %+v, want classes %q", l, tc.want)
			}
			if got := s.Split("train").Label; tc.labels != nil && !slices.Equal(got[:3], tc.labels) {
				t.Errorf("the first labels are %v, want %v", got[:3], tc.labels)
			}
			said := ""
			for _, w := range s.Manifest.About.Warnings {
				if w.Code == WarnSpelling {
					said += w.Column + ": " + w.Text
				}
			}
			if want := map[string]string{
				"spellings": `y: equal numbers are one class: "+1", "1", "1.0" all mean class 1`}[name]; said != want {
				t.Errorf("staging says %q, want %q", said, want)
			}
			if got := s.Manifest.Encoding().Classes; !slices.Equal(got, l.Classes) {
				t.Errorf("the encoding names the classes %q, want %q", got, l.Classes)
			}
		})
	}
}

// TestKeysOfClassesAreLearntOnce: each class has a table of the same ids, and the search for keys sees these once.
func TestKeysOfClassesAreLearntOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("site,zip,y\n")
	for i := range 4000 {
		h := encode.Mix(uint64(i))
		fmt.Fprintf(&b, "s%d,z%d,c%d\n", h%50, h>>8%40, h>>16%6)
	}
	lessons := 0
	_, err := tryStage(t, "label: y\ncategorical: [site, zip]\nencodings: {columns: {site: [rate], zip: [rate]}}\n",
		[]table.File{writeFile(t, "t.csv", b.String())}, Options{Learner: func(_ context.Context, l *encode.Lesson) (
			[]float64, error) {
			lessons++
			for i, c := range l.Columns {
				for j := range i {
					if bytes.Equal(c.Data, l.Columns[j].Data) {
						t.Fatalf("of %d columns %d and %d are the same", len(l.Columns), j, i)
					}
				}
			}
			return make([]float64, len(l.Label)), nil
		}})
	if err != nil || lessons == 0 {
		t.Errorf("%d lessons, %v", lessons, err)
	}
}

// TestIDsOfClasses: a column of many levels has a rate for each class but the rarest, up to eight, the most frequent
// first, and one count. Each rate's table has the class's rows.
func TestIDsOfClasses(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,y\n")
	long := "b\x7f" // in no name of a column
	for i := range 4000 {
		fmt.Fprintf(&b, "u%d,%s\n", i*i%700, []string{"1", long, "c", long}[i%4])
	}
	s := mustStage(t, "label: {column: y, kind: classes}\ncategorical: [id]\n", b.String())
	var names []string
	for _, f := range s.Manifest.Features {
		names = append(names, f.Name)
	}
	if want := []string{"id:rate:1", "id:count", "id:rate:0"}; !slices.Equal(names, want) {
		t.Errorf("got features %q, want %q", names, want)
	}
	train := s.Split("train")
	levels := must.Get(dataset.OpenLevels(filepath.Join(s.Dir(), dataset.LevelsFile), s.Manifest.Tables))(t)
	defer levels.Close()
	for i := range s.Manifest.Tables {
		table := &s.Manifest.Tables[i]
		want, got := 0.0, 0.0
		for _, y := range train.Label[:s.Manifest.TableRows("train")] {
			if int(y)+1 == table.Class {
				want++
			}
		}
		for at := table.First; at < table.First+table.Levels; at++ {
			got += levels.Sum[at]
		}
		prior := want / float64(s.Manifest.TableRows("train"))
		if got != want || want == 0 || math.Abs(table.Prior-prior) > 1e-12 {
			t.Errorf("table %d of class %d has %v rows of it and prior %v, want %v and %v", i, table.Class, got,
				table.Prior, want, prior)
		}
	}

	b.Reset()
	b.WriteString("id,y\n")
	for i := range 4000 {
		fmt.Fprintf(&b, "u%d,c%02d\n", i*i%700, i%12)
	}
	s = mustStage(t, "label: y\ncategorical: [id]\nencodings: {keys: [[id]]}\n", b.String())
	if n := len(s.Manifest.Features); n != 9 {
		t.Errorf("got %d features of an id and twelve classes, want eight rates and a count", n)
	}
}

// TestALeakOfClasses: a column that is the class is warned of, one that tells two of three apart is not.
func TestALeakOfClasses(t *testing.T) {
	var b strings.Builder
	b.WriteString("leak,part,y\n")
	for i := range 3000 {
		k := i * 7 % 3
		fmt.Fprintf(&b, "%d,%d,%s\n", k*10+i%2, min(k, 1), []string{"a", "b", "c"}[k])
	}
	s := mustStage(t, "label: y\n", b.String())
	var leaks []string
	for _, w := range s.Manifest.About.Warnings {
		if w.Code == WarnLeak {
			leaks = append(leaks, w.Column)
		}
	}
	if !slices.Equal(leaks, []string{"leak"}) {
		t.Errorf("warned of %q, want of the column leak alone: %+v", leaks, s.Manifest.About.Warnings)
	}
}

func TestClassesRefused(t *testing.T) {
	var many strings.Builder
	many.WriteString("x,y\n")
	for i := range dataset.MaxClasses + 1 {
		fmt.Fprintf(&many, "1,c%d\n", i)
	}
	three := "x,y\n1,a\n2,b\n3,c\n"
	for want, tc := range map[string][2]string{
		"holds more than 100 classes":      {"label: y\n", many.String()},
		"a class whose name has 300 bytes": {"label: y\n", three + "4," + strings.Repeat("d", 300) + "\n"},
		"has the same value in every row":  {"label: {column: y, kind: classes}\n", "x,y\n1,a\n2,a\n"},
	} {
		_, err := tryStage(t, tc[0], []table.File{writeFile(t, "t.csv", tc[1])}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", tc[0], err, want)
		}
	}
}
