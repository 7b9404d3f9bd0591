package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
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

// TestIDsOfClasses: a column of many levels becomes a category and its count, since there is no one rate.
func TestIDsOfClasses(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,y\n")
	for i := range 4000 {
		fmt.Fprintf(&b, "u%d,%s\n", i*i%700, []string{"a", "b", "c"}[i%3])
	}
	s := mustStage(t, "label: y\ncategorical: [id]\n", b.String())
	var names []string
	for _, f := range s.Manifest.Features {
		names = append(names, f.Name)
	}
	if want := []string{"id", "id:count"}; !slices.Equal(names, want) {
		t.Errorf("got features %q, want %q", names, want)
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
		"a rate needs a label of two classes": {"label: y\nencodings: {columns: {x: [rate]}}\ncategorical: [x]\n",
			three},
		"has the same value in every row": {"label: {column: y, kind: classes}\n", "x,y\n1,a\n2,a\n"},
	} {
		_, err := tryStage(t, tc[0], []table.File{writeFile(t, "t.csv", tc[1])}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", tc[0], err, want)
		}
	}
}
