package dataset

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"coppice/internal/problem"
)

// SourceSpec says where the files of a table are: `source: PLACE`, a list of places, or a mapping if the places are
// those of days. Rows of BigQuery are a place, too: bigquery://PROJECT/DATASET/TABLE, or a query in GoogleSQL.
type SourceSpec struct {
	// files, globs or folders, local or gs://, tables, queries; {date:2006-01-02} stands for each of the last days
	Files   FileList `yaml:"files"`
	Last    Days     `yaml:"last"`    // how many days, up to the newest that is complete
	Missing string   `yaml:"missing"` // MissingAllow if a day may have no file
}

// MissingAllow is the SourceSpec.Missing of a source whose older days may be missing. The newest never may.
const MissingAllow = "allow"

// Days is a number of days, written 28d.
type Days int

// UnmarshalText reads a number of days.
func (d *Days) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(strings.TrimSuffix(string(text), "d"), 10, 16)
	if err != nil || n == 0 || n > maxDays || !strings.HasSuffix(string(text), "d") || text[0] == '0' {
		return fmt.Errorf("%q is not a number of days from 1d to %dd", text, maxDays)
	}
	*d = Days(n)
	return nil
}

const (
	maxDays   = 1100 // three years
	maxPlaces = 1000
	maxLooks  = 10_000 // places times days, each of which is listed
	maxQuery  = 100_000
)

// FileList is one place, or a list of them.
type FileList []string

// YAMLBare says that a single place is a text.
func (FileList) YAMLBare() any { return "" }

// UnmarshalYAML also accepts a single place.
func (l *FileList) UnmarshalYAML(decode func(any) error) error {
	var one string
	if decode(&one) == nil {
		*l = FileList{one}
		return nil
	}
	return decode((*[]string)(l))
}

// YAMLBare says that a source without keys is a place.
func (SourceSpec) YAMLBare() any { return "" }

// UnmarshalYAML also accepts the files alone.
func (s *SourceSpec) UnmarshalYAML(decode func(any) error) error {
	if decode(&s.Files) == nil {
		return nil
	}
	type plain SourceSpec
	return decode((*plain)(s))
}

// InBucket reports whether a place, or a destination, is in a bucket.
func InBucket(place string) bool { return strings.HasPrefix(place, "gs://") }

// CheckPlace refuses a place where this program reads no tables: anything with a scheme but gs://. Rows of BigQuery, a
// table or a query, may be the source of a spec, but not a place on the command line; the error says so.
func CheckPlace(place string) error {
	scheme, _, found := strings.Cut(place, "://")
	switch {
	case inBigQuery(place):
		return problem.New(problem.Usage, "%.200s: write it as source: into a dataset.yaml, and stage that", place)
	case !found || scheme == "gs":
		return nil
	}
	return problem.New(problem.Usage, "%s: tables are read from files and from gs://; copy it to one of them", place)
}

// query matches a place that is a query, perhaps with comments and brackets before it. fleeting matches what would make
// a query's rows depend on when it runs, so that staging again would give another dataset.
var (
	query    = regexp.MustCompile(`(?is)^(\s|(--|#)[^\n]*\n|/\*.*?\*/|\()*(SELECT|WITH)\s`)
	fleeting = regexp.MustCompile(`(?i)\b(CURRENT_(DATE|TIME|DATETIME|TIMESTAMP)\b|` +
		`(RAND|GENERATE_UUID|SESSION_USER)\s*\()`)
)

// inBigQuery reports whether a place is a table of BigQuery or a query.
func inBigQuery(place string) bool {
	return strings.HasPrefix(place, "bigquery://") || query.MatchString(place)
}

// bigTable is a table's address: names as BigQuery allows them, the table's with a partition behind $ or a day's mark.
var bigTable = regexp.MustCompile(`^bigquery://([a-z][a-z0-9.:-]{1,100})/(\w{1,300})/((?:[\p{L}\p{N}_$-]|` +
	dateMark.String() + `){1,300})$`)

// String is the source in messages.
func (s SourceSpec) String() string { return strings.Join(s.Files, ", ") }

// AnyRemote reports whether something of the source is in a bucket or in BigQuery.
func (s SourceSpec) AnyRemote() bool { return slices.ContainsFunc(s.Files, remote) }

// AnyLocal reports whether some place is on this machine.
func (s SourceSpec) AnyLocal() bool {
	return slices.ContainsFunc(s.Files, func(place string) bool { return !remote(place) })
}

// remote reports whether a place is in a bucket or in BigQuery.
func remote(place string) bool { return InBucket(place) || inBigQuery(place) }

// RelativeTo makes relative local places relative to a folder, and cleans absolute ones (filepath.Clean). Places in a
// bucket or in BigQuery stay.
func (s *SourceSpec) RelativeTo(folder string) {
	for i, place := range s.Files {
		switch {
		case remote(place):
		case filepath.IsAbs(place):
			s.Files[i] = filepath.Clean(place)
		default:
			s.Files[i] = filepath.Join(folder, place)
		}
	}
}

// Dated reports whether the files are those of days.
func (s SourceSpec) Dated() bool { return slices.ContainsFunc(s.Files, dateMark.MatchString) }

// dayFolder is a folder NAME={date:2006-01-02}.
var dayFolder = regexp.MustCompile(`^([^={}]+)=\{date:[^{}]*\}$`)

// NamesDay reports whether a column is the day in the names of the files' folders: some place has a folder
// COLUMN={date:2006-01-02}.
func (s SourceSpec) NamesDay(column string) bool {
	return slices.ContainsFunc(s.Files, func(place string) bool {
		return slices.ContainsFunc(strings.Split(place, "/"), func(folder string) bool {
			m := dayFolder.FindStringSubmatch(folder)
			return m != nil && m[1] == column
		})
	})
}

// dateMark is the place of a day in a file's name.
var dateMark = regexp.MustCompile(`\{date:([^{}]*)\}`)

// dayForms are the parts of a day, as in Go's layouts: the year, month and day of 2006-01-02.
var dayForms = []string{"2006", "01", "02"}

// checkSource checks that there are places, that each is possible and different from the others, and that they are not
// too many to list: every dated place is looked up for each of the last days.
func (s *Spec) checkSource() error {
	src := &s.Source
	if len(src.Files) == 0 || len(src.Files) > maxPlaces {
		return s.Errorf("source",
			"source has %d places: give 1 to %d: files, globs such as exports/*.parquet, or folders",
			len(src.Files), maxPlaces)
	}

	for i, place := range src.Files {
		// The place's key in the spec, for errors: places may be given in three ways.
		path := "source"
		for _, at := range []string{"source.files[%d]", "source.files", "source[%d]"} {
			if full := strings.ReplaceAll(at, "%d", strconv.Itoa(i)); s.doc.Has(full) {
				path = full
				break
			}
		}
		// CheckPlace is also for the command line, and refuses BigQuery, which a spec may name.
		if err := CheckPlace(place); err != nil && !inBigQuery(place) {
			return s.Errorf(path, "%v", err)
		}
		switch {
		case place == "":
			return s.Errorf(path, "the place is empty: give a file, a glob such as exports/*.parquet or a folder")
		case strings.ContainsRune(place, 0):
			return s.Errorf(path, "source %q holds a NUL, which no file's name does", place)
		case slices.Contains(src.Files[:i], place):
			return s.Errorf(path, "%s is listed twice", place)
		case query.MatchString(place):
			if word := fleeting.FindString(place); word != "" || len(place) > maxQuery {
				return s.Errorf(path, "a query has at most %d bytes, and selects the same rows whenever it runs: name "+
					"the day as {date:2006-01-02}, with --day, in place of %s", maxQuery,
					cmp.Or(word, "what is longer"))
			}
		case inBigQuery(place) && !bigTable.MatchString(place):
			return s.Errorf(path, "%.200q: use bigquery://PROJECT/DATASET/TABLE", place)
		}
		if err := s.checkMarks(path, place); err != nil {
			return err
		}
	}

	if looks := len(src.Files) * int(max(1, src.Last)); looks > maxLooks {
		return s.Errorf("source",
			"%d places of %d days are %d listings: use at most %d, as with fewer places that hold "+
				"a * each", len(src.Files), src.Last, looks, maxLooks)
	}
	if m := src.Missing; m != "" && m != MissingAllow {
		return s.Errorf("source.missing", "missing %q: use %s, or leave it out: then a day without a file is an error",
			m, MissingAllow)
	}
	if src.Missing != "" && src.Last < 2 {
		return s.Errorf("source.missing", "missing needs last, of two days or more: the newest day is never optional")
	}
	return nil
}

// checkMarks checks the {date:...} marks of a place or a query. last needs at least one. Together they have year, month
// and day, so that every day has a place of its own. path is the place's key in the spec.
func (s *Spec) checkMarks(path, text string) error {
	var forms string
	for _, mark := range dateMark.FindAllStringSubmatch(text, -1) {
		forms += mark[1] + " "
	}
	switch {
	case strings.Contains(dateMark.ReplaceAllString(text, ""), "{date"):
		return s.Errorf(path, "%.80q: write a day as {date:2006-01-02}, in quotes inside [ ] and { }", text)
	case forms == "" && s.Source.Last > 0:
		return s.Errorf(path, "last needs {date:2006-01-02} in every place, as in gs://B/{date:2006-01-02}/*.csv")
	case forms != "" && slices.ContainsFunc(dayForms, func(f string) bool { return !strings.Contains(forms, f) }):
		return s.Errorf(path,
			"{date:...} needs the year as 2006, the month as 01 and the day as 02, in any order: "+
				"days that differ need places that differ")
	}
	return nil
}

// Place is where to look for some of a table's files.
type Place struct {
	Pattern string // a file, a glob or a folder
	// Fixed is the part of Pattern that is the same for all files: folders NAME=VALUE behind it are columns.
	Fixed string
	Day   string // as 2006-01-02; empty for a place that is no day's
	Query string // what selects the rows in BigQuery, of which Pattern is then the name; empty for files
}

// Places returns where the files are, by day and then in the order of the spec; places without a day come first. newest
// is the newest day that is complete. A place with a {date:...} mark stands for the last s.Last days up to it, or for
// that day alone if Last is not given.
func (s SourceSpec) Places(newest time.Time) []Place {
	var out []Place
	for _, place := range s.Files {
		if !dateMark.MatchString(place) {
			out = append(out, newPlace(place, fixedFolder(place), ""))
			continue
		}
		for back := range int(max(1, s.Last)) {
			day := newest.AddDate(0, 0, -back)
			pattern := dateMark.ReplaceAllStringFunc(place, func(mark string) string {
				form := dateMark.FindStringSubmatch(mark)[1]
				return strings.NewReplacer("2006", day.Format("2006"), "01", day.Format("01"), "02", day.Format("02")).
					Replace(form)
			})
			out = append(out, newPlace(pattern, fixedFolder(place), day.Format(time.DateOnly)))
		}
	}
	slices.SortStableFunc(out, func(a, b Place) int { return cmp.Compare(a.Day, b.Day) })
	return out
}

// newPlace makes a Place. If it is in BigQuery, it adds the query that selects the rows: all of a table, or the spec's
// own query. A query is named by a hash of its text, since a place needs a name.
func newPlace(pattern, fixed, day string) Place {
	p := Place{Pattern: pattern, Fixed: fixed, Day: day}
	if m := bigTable.FindStringSubmatch(pattern); m != nil {
		p.Query = fmt.Sprintf("SELECT * FROM `%s.%s.%s`", m[1], m[2], m[3])
	} else if query.MatchString(pattern) {
		p.Query = strings.TrimRight(pattern, "; \t\r\n")
		p.Pattern = fmt.Sprintf("bigquery://query-%.4x", sha256.Sum256([]byte(p.Query)))
	}
	return p
}

// fixedFolder returns the part of a place that is the same for all its files: up to the slash before the first folder
// or file whose name has a wildcard, a backslash, which quotes one, or a date. A place without any is returned whole.
func fixedFolder(place string) string {
	i := strings.IndexAny(place, "*?[\\")
	if mark := dateMark.FindStringIndex(place); mark != nil && (i < 0 || mark[0] < i) {
		i = mark[0]
	}
	if i < 0 {
		return place
	}
	return place[:strings.LastIndex(place[:i], "/")+1]
}
