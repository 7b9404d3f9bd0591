package table

import "testing"

// TestPlaces: an error begins with the place, whatever is known of it.
func TestPlaces(t *testing.T) {
	for want, e := range map[string]InputError{
		`a.csv:3: column "x": bad`: {File: "a.csv", Line: 3, Row: 2, Column: "x", Msg: "bad"},
		`a.parquet: row 2: bad`:    {File: "a.parquet", Row: 2, Msg: "bad"},
		`row 2: column "x": bad`:   {Row: 2, Column: "x", Msg: "bad"}, // of a request
		`column "x": bad`:          {Column: "x", Msg: "bad"},
		`a.csv: bad`:               {File: "a.csv", Msg: "bad"},
	} {
		if e.Error() != want {
			t.Errorf("got %s, want %s", e.Error(), want)
		}
	}
}
