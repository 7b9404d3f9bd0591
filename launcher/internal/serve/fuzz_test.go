package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
)

// forColumns is a model of some columns, which reads and does not predict.
func forColumns(names ...string) *Model {
	m := &Model{columns: names, numbers: make([]bool, len(names)), place: map[string]int{}}
	for i, name := range names {
		m.place[name] = i
	}
	return m
}

const fuzzRows = 5

// checkBatch makes sure that a batch has the model's columns, all of one length.
func checkBatch(t *testing.T, m *Model, b *table.Batch) {
	t.Helper()
	if b.Rows < 1 || b.Rows > fuzzRows || len(b.Columns) != len(m.columns) {
		t.Fatalf("got %d rows of %d columns, want 1 to %d of %d", b.Rows, len(b.Columns), fuzzRows, len(m.columns))
	}
	for i := range b.Columns {
		v := &b.Columns[i]
		if v.Len() != b.Rows || v.Null != nil && len(v.Null) != b.Rows {
			t.Fatalf("column %d has %d values and %d nulls in %d rows", i, v.Len(), len(v.Null), b.Rows)
		}
		for _, text := range v.Text {
			if !utf8.ValidString(text) {
				t.Fatalf("column %d has the text %q, want UTF-8", i, text)
			}
		}
	}
}

// FuzzInstances compares with encoding/json: what is read has the values that it finds. A column of numbers has those
// that the texts spell.
func FuzzInstances(f *testing.F) {
	for _, text := range []string{`{"instances":[{"a":1,"b":"x"},{"b":null,"c":[1,{"d":2}],"a":-1.5e3}]}`,
		`{"x":{"y":[]},"instances":[{"a":true,"b":"\u00fc\n"}] }`, `{"instances":[{"b":1,"a":2},{"a":3}]}`,
		`{"instances":[{"a":-0.25,"b":01},{"a":123456789012345678,"b":0}]}`,
		`{"instances":[{"a":-0,"b":1},{"a":0.7 },{},{"a":1e9},{"a":1234567890.12345}]}`,
		`{"instances":[{"a":1.0,"b":1.},{"a":-.5}]}`, `{"instances":[{"a":12345678901234567,"b":2,"b":3}]}`,
		`{"instances":[{"a":0.3,"b":2},{"a":"1"},{"a":null}]}`, `{"instances":[{"a":007,"b":""}]}`} {
		f.Add([]byte(text))
	}
	m, numeric := forColumns("a", "b"), forColumns("a", "b")
	numeric.numbers[0] = true
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := readInstances(m, body, fuzzRows)
		n, numericErr := readInstances(numeric, body, fuzzRows)
		if fmt.Sprint(err) != fmt.Sprint(numericErr) {
			t.Fatalf("%q: as numbers %v, want %v as of texts", body, numericErr, err)
		}
		if err != nil {
			return
		}
		checkBatch(t, m, b)
		checkBatch(t, numeric, n)
		for r, x := range n.Columns[0].Float {
			want, _ := cell.ParseForced(b.Columns[0].Text[r])
			null := b.Columns[0].IsNull(r)
			if null != math.IsNaN(x) || !null && math.Float64bits(x) != math.Float64bits(want) {
				t.Fatalf("%q: row %d: got the number %v, want %q", body, r, x, b.Columns[0].Text[r])
			}
		}
		var want struct {
			Instances []map[string]any
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		var all map[string]json.RawMessage
		if err := json.Unmarshal(body, &all); err != nil {
			t.Fatalf("%q was read, and is no JSON: %v", body, err)
		}
		d = json.NewDecoder(bytes.NewReader(all["instances"]))
		d.UseNumber()
		if err := d.Decode(&want.Instances); err != nil || len(want.Instances) != b.Rows {
			t.Fatalf("%q: got %d rows, want %d (%v)", body, b.Rows, len(want.Instances), err)
		}
		for r, row := range want.Instances {
			for i, name := range m.columns {
				v := &b.Columns[i]
				value, null := "", false
				switch x := row[name].(type) {
				case nil:
					null = true
				case bool:
					value = map[bool]string{true: "true", false: "false"}[x]
				case json.Number:
					value = x.String()
				case string:
					value = x
				}
				if v.IsNull(r) != null || v.Text[r] != value {
					t.Fatalf("%q: row %d, column %s: got %q, null %v; want %q, null %v", body, r, name, v.Text[r],
						v.IsNull(r), value, null)
				}
			}
		}
	})
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n\"x,\",y\n"))
	f.Add([]byte("b;a\n1;2\n"))
	m := forColumns("a", "b")
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, name := range []string{"request.csv", "request.jsonl"} {
			b, err := readText(t.Context(), m, name, body, fuzzRows)
			var input *table.InputError
			if err == nil {
				checkBatch(t, m, b)
			} else if len(body) > 6 && !errors.As(err, &input) && problem.Of(err) != problem.Input &&
				!strings.Contains(err.Error(), "compressed, Parquet") {
				t.Fatalf("untyped error %T: %v", err, err)
			}
		}
	})
}
