package scorer

import (
	"fmt"
	"testing"

	"coppice/internal/must"
)

// FuzzDecodeTested: of what is decoded, each class says of all classes how many of its rows were predicted as them.
func FuzzDecodeTested(f *testing.F) {
	for _, classes := range []string{
		`{"name":"a","rows":1,"weight":1,"sum":1,"taken":[1,0]},{"name":"b","taken":[0,0]}`,
		`{"name":"a","taken":[1]},{"name":"b","taken":[0,0]}`, `{"taken":[-1]}`, `{"taken":[1],"rows":-1}`,
		`{"taken":[1],"weight":-1}`, `{}`} {
		f.Add([]byte(`{"format":1,"classes":[` + classes + `]}`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := DecodeTested(text)
		if err != nil {
			return
		}
		for i, c := range got.Classes {
			if len(c.Taken) != len(got.Classes) || c.Rows < 0 || c.Weight < 0 {
				t.Errorf("got class %d of %d: %+v, want an error", i, len(got.Classes), c)
			}
		}
	})
}

// TestDecodeTestedRefuses: counts of a class that cannot be are an error that names the class.
func TestDecodeTestedRefuses(t *testing.T) {
	for _, classes := range []string{`{"taken":[1]},{"taken":[1,0]}`, `{"taken":[-1]}`, `{"taken":[1],"rows":-1}`,
		`{"taken":[1],"weight":-1}`, `{}`} {
		_, err := DecodeTested([]byte(`{"format":1,"classes":[` + classes + `]}`))
		must.Say(t, fmt.Sprintf("classes %s", classes), err, "tested.json: class ")
	}
}
