package cell

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

func TestParseNumber(t *testing.T) {
	for text, want := range map[string]struct {
		x float64
		f Form
	}{
		"0": {0, FormNumber}, "-0": {math.Copysign(0, -1), FormNumber}, "17": {17, FormNumber}, "+17": {17, FormNumber},
		" 17\t": {17, FormNumber},
		"1.5":   {1.5, FormNumber}, ".5": {.5, FormNumber}, "5.": {5, FormNumber}, "-0.25": {-.25, FormNumber},
		"0.1":   {.1, FormNumber},
		"1e-05": {1e-5, FormNumber}, "1E+20": {1e20, FormNumber}, "1.0E10": {1e10, FormNumber},
		"-5e3": {-5000, FormNumber}, "1e-400": {0, FormNumber},
		"inf": {math.Inf(1), FormNumber}, "-Infinity": {math.Inf(-1), FormNumber},
		"+INF":             {math.Inf(1), FormNumber},
		"9007199254740992": {1 << 53, FormNumber}, "9007199254740993": {1 << 53, FormBig},
		"-9007199254740993":       {-(1 << 53), FormBig},
		"12345678901234567890123": {12345678901234567890123, FormBig}, "1234567890123456.5": {1234567890123456.5,
			FormNumber}, "0.1234567890123456789": {0.1234567890123456789, FormNumber},
		"623049e6": {623049e6, FormDigits}, "24154600": {24154600, FormNumber}, "1e5": {1e5, FormDigits},
		"1E5":  {1e5, FormDigits},
		"0052": {52, FormDigits}, "00": {0, FormDigits}, "-007": {-7, FormDigits}, "00.5": {.5, FormDigits},
		"0.50": {.5, FormNumber},
		"":     {0, FormText}, " ": {0, FormText}, "-": {0, FormText}, ".": {0, FormText}, "e5": {0, FormText},
		"1e": {0, FormText}, "1e+": {0, FormText}, "1 2": {0, FormText},
		"0x1p4": {0, FormText}, "1_000": {0, FormText}, "1,5": {0, FormText}, "12a": {0, FormText},
		"--1": {0, FormText}, "1.2.3": {0, FormText}, "infin": {0, FormText}, "nanny": {0, FormText},
		"٣": {0, FormText},
	} {
		x, f := ParseNumber(text)
		if f != want.f || f != FormText && math.Float64bits(x) != math.Float64bits(want.x) {
			t.Errorf("%q: %v, form %d; want %v, form %d", text, x, f, want.x, want.f)
		}
	}
	for _, text := range []string{"nan", "NaN", "-nan", "NAN", "1e+999", "-1e400"} {
		x, f := ParseNumber(text)
		want := FormNumber
		if strings.Contains(text, "e") {
			want = FormDigits
		}
		if f != want || x == x {
			t.Errorf("%q: %v, form %d", text, x, f)
		}
	}
	for text, want := range map[string]float64{"True": 1, "false": 0, "0052": 52, "623049e6": 623049e6} {
		if x, ok := ParseForced(text); !ok || x != want {
			t.Errorf("forced %q: %v %v", text, x, ok)
		}
	}
}

// Whatever we take for a number, strconv reads as the same one.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"1.5", "-0.1e-7", "9007199254740993", "0052", "623049e6", "123456789012345",
		"0.000000000000000000000012", "inf", "1e999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, form := ParseNumber(s)
		want, err := strconv.ParseFloat(Trim(s), 64)
		if form == FormText {
			if err == nil && !strings.ContainsAny(s, "xX_pP") {
				t.Fatalf("%q is a number, %v", s, want)
			}
			return
		}
		if math.IsInf(want, 0) && strings.ContainsAny(s, "0123456789") { // 1e999 is missing
			err, want = nil, math.NaN()
		}
		if err != nil {
			t.Fatalf("%q is no number: %v", s, err)
		}
		if math.Float64bits(x) != math.Float64bits(want) && (x == x || want == want) {
			t.Fatalf("%q: %v, want %v", s, x, want)
		}
	})
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"2017-07-02": "2017-07-02T00:00:00Z", "2017-7-2": "2017-07-02T00:00:00Z",
		"2017-07-02 7:50": "2017-07-02T07:50:00Z", "2017-07-02T07:50": "2017-07-02T07:50:00Z",
		"2017-07-02 10:03:20": "2017-07-02T10:03:20Z", "2017-07-02T10:03:20.5Z": "2017-07-02T10:03:20.5Z",
		"2017-07-02 10:03:20,25":            "2017-07-02T10:03:20.25Z",
		"2017-07-02T10:03:20.123456789123Z": "2017-07-02T10:03:20.123456789Z",
		"2017-07-02T10:03:20+02:00":         "2017-07-02T08:03:20Z",
		"2017-07-02 10:03:20 -0530":         "2017-07-02T15:33:20Z",
		"2017-07-02T10:03+01":               "2017-07-02T09:03:00Z", "1969-12-31T23:59:59.5z": "1969-12-31T23:59:59.5Z",
		"2016-02-29": "2016-02-29T00:00:00Z", "9999-12-31": "9999-12-31T00:00:00Z",
		" 2000-02-29\t": "2000-02-29T00:00:00Z", "0000-01-01": "0000-01-01T00:00:00Z",
	} {
		at := must.Get(time.Parse(time.RFC3339Nano, want))(t)
		sec, nsec, ok := ParseTime(text)
		if !ok || sec != at.Unix() || nsec != int64(at.Nanosecond()) {
			t.Errorf("%q: %d s %d ns %v, want %s", text, sec, nsec, ok, want)
		}
	}
	for _, text := range []string{"", "2017", "2017-13-01", "2017-02-29", "1900-02-29", "2017-00-01", "2017-01-00",
		"2017-01-32", "20170101", "2017-01-01T", "2017-01-01 25:00",
		"2017-01-01 10", "2017-01-01 10:60", "2017-01-01 10:00:61", "2017-01-01 10:00:00.", "2017-01-01 10:00 +25:00",
		"2017-01-01 10:00 CET", "2017-01-01x", "17-01-01", "-017-01-01", "abc"} {
		if _, _, ok := ParseTime(text); ok {
			t.Errorf("%q is a time", text)
		}
	}
}

// TestTexts reads the texts that Python's tests read, too.
func TestTexts(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/texts.json"))(t)
	var forms map[string]map[string]any
	must.Do(t, json.Unmarshal(data, &forms))
	for form, texts := range forms {
		order := orders[dataset.Format(form)]
		for text, want := range texts {
			if f := dataset.Format(form); f == dataset.AsNumber || f == dataset.DecimalComma {
				v, err := ReadAs(f, &dataset.Values{Type: dataset.Text, Text: []string{text}}, NewMarkers(nil))
				if x, _ := want.(float64); (err == nil) != (want != nil) || err == nil && v.Float[0] != x {
					t.Errorf("%s %q is read as %v, %v; expected %v", form, text, v.Float, err, want)
				}
				continue
			}
			sec, nsec, ok := parseTime(text, order)
			got := any(nil)
			if ok {
				got = time.Unix(sec, nsec).UTC().Format(time.RFC3339Nano)
			}
			if got != want {
				t.Errorf("%s %q is read as %v, expected %v", form, text, got, want)
			}
		}
	}
}

// Every time that we read, Go reads as the same one, once it is written as Go wants it.
func FuzzTime(f *testing.F) {
	f.Add("2017-07-02T10:03:20.5+02:00")
	f.Add("2017-7-2 7:50")
	f.Fuzz(func(t *testing.T, s string) {
		sec, nsec, ok := ParseTime(s)
		if !ok {
			return
		}
		if nsec < 0 || nsec > 999999999 {
			t.Fatalf("%q: %d ns", s, nsec)
		}
		again := time.Unix(sec, nsec).UTC().Format("2006-01-02T15:04:05.999999999Z")
		sec2, nsec2, ok := ParseTime(again)
		if (!ok || sec2 != sec || nsec2 != nsec) && len(again) >= 20 && again[4] == '-' {
			t.Fatalf("%q is %s, which is read as %d s, %d ns", s, again, sec2, nsec2)
		}
		if at, err := time.Parse(time.RFC3339Nano, s); err == nil &&
			(at.Unix() != sec || int64(at.Nanosecond()) != nsec) {
			t.Fatalf("%q: Go reads %s", s, at)
		}
	})
}

func TestTokens(t *testing.T) {
	tok := NewMarkers([]string{"", "NA", "-999", "n/a "})
	for text, want := range map[string]bool{"": true, "  ": true, "NA": true, " NA ": true, "na": false, "-999": true,
		"-999.0": false, "n/a": true, "NAN": false} {
		if tok.Has(text) != want {
			t.Errorf("whether %q is a missing marker: got %t, want %t", text, !want, want)
		}
	}
	if !tok.HasNumber(-999) || tok.HasNumber(0) {
		t.Error("numbers")
	}
	if NewMarkers(nil).Has("") {
		t.Error("no markers, but the empty text is one")
	}
}

// TestShortNumbers reads texts of few digits both ways.
func TestShortNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 1))
	read := 0
	for range 100_000 {
		text := make([]byte, rng.IntN(18))
		for i := range text {
			text[i] = "0123456789012345678901234567890123456789-.+e "[rng.IntN(45)]
		}
		got, ok := shortNumber(string(text))
		if !ok {
			continue
		}
		read++
		want, form := ParseNumber(string(text))
		if form == FormText || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%q is read as %v; want %v (form %d)", text, got, want, form)
		}
	}
	if read < 10_000 {
		t.Errorf("%d texts are short numbers, want 10,000 of 100,000", read)
	}
}
