package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
)

// blockedError reports a dataset that staging has blocked and nobody has accepted.
type blockedError struct{ text string }

func (e *blockedError) Error() string { return e.text }

// ExitStatus is the exit code of a program that ends with this error.
func (*blockedError) ExitStatus() int { return sweep.ExitBlocked }

// maxNight bounds what is read of a night's record; those of package nights are no longer.
const maxNight = 64 << 20

// checkNight returns a *blockedError if a dataset's folder must not be trained on: staging has blocked it, and nobody
// has accepted it. What staging found is in the record of the version's night, beside the folders that launcher stage
// --out makes. A folder without such a record is accepted. The record is decoded here, without package nights, which
// would bring the readers of tables into this program.
func checkNight(dir string, m *dataset.Manifest) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	// The dataset's folder NAME has its versions, and their records in NAME/nights.
	home := filepath.Dir(dir)
	f, err := os.Open(filepath.Join(home, "nights", m.Version+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the night's record: %w", err)
	}
	defer f.Close()

	var r struct {
		Findings []struct{ Level, Column, Text string }
		Accepted *struct{}
	}
	if err := json.NewDecoder(io.LimitReader(f, maxNight)).Decode(&r); err != nil {
		return problem.Wrap(problem.Damaged, err, "%s: the night's record is damaged; stage the table again", f.Name())
	}

	// The first finding that blocks is the reason.
	for _, one := range r.Findings {
		if one.Level != "blocking" || r.Accepted != nil { // somebody has accepted them all
			continue
		}
		why := one.Text
		if one.Column != "" {
			why = one.Column + ": " + why
		}
		ref, in := m.Name+"@"+m.Version, program.ShellQuote(filepath.Dir(home))
		return &blockedError{fmt.Sprintf("dataset %s is blocked: %s\n`launcher datasets show %s --in %s` lists all "+
			"findings; if the table is right, accept it: `launcher datasets accept %s --in %s --why REASON`", ref, why,
			ref, in, ref, in)}
	}
	return nil
}
