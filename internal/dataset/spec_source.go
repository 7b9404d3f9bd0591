package dataset

import (
	"cmp"
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
// those of days.
type SourceSpec struct {
	// files, globs or folders, local or gs://; {date:2006-01-02} stands for each of the last days
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

// CheckPlace refuses an address of tables that are neither files nor in a bucket.
func CheckPlace(place string) error {
	scheme, rest, found := strings.Cut(place, "://")
	switch {
	case !found || scheme == "gs":
		return nil
	case scheme == "bigquery" || scheme == "bq":
		return problem.New(problem.Usage, "%s: export the table to a bucket, and give its files: bq extract "+
			"--destination_format PARQUET %s 'gs://BUCKET/FOLDER/*.parquet'", place, bigTable(rest))
	}
	return problem.New(problem.Usage, "%s: tables are read from files and from gs://; copy it to one of them", place)
}

// bigTable is PROJECT:DATASET.TABLE, as bq has it.
func bigTable(path string) string {
	parts := strings.Split(strings.ReplaceAll(path, "/", "."), ".")
	if len(parts) != 3 {
		return "PROJECT:DATASET.TABLE"
	}
	return parts[0] + ":" + parts[1] + "." + parts[2]
}

// String is the source in messages.
func (s SourceSpec) String() string { return strings.Join(s.Files, ", ") }

// AnyInBucket reports whether a file is in a bucket, and AnyLocal whether one is not.
func (s SourceSpec) AnyInBucket() bool { return slices.ContainsFunc(s.Files, InBucket) }

// AnyLocal reports whether some place is not in a bucket.
func (s SourceSpec) AnyLocal() bool {
	return slices.ContainsFunc(s.Files, func(place string) bool { return !InBucket(place) })
}

// RelativeTo makes relative local places relative to a folder.
func (s *SourceSpec) RelativeTo(folder string) {
	for i, place := range s.Files {
		switch {
		case InBucket(place):
		case filepath.IsAbs(place):
			s.Files[i] = filepath.Clean(place)
		default:
			s.Files[i] = filepath.Join(folder, place)
		}
	}
}

// Dated reports whether the files are those of days.
func (s SourceSpec) Dated() bool { return slices.ContainsFunc(s.Files, dateMark.MatchString) }

// dateMark is the place of a day in a file's name.
var dateMark = regexp.MustCompile(`\{date:([^{}]*)\}`)

// dayForms are the parts of a day, as in Go's layouts: the year, month and day of 2006-01-02.
var dayForms = []string{"2006", "01", "02"}

func (s *Spec) checkSource() error {
	src := &s.Source
	if len(src.Files) == 0 || len(src.Files) > maxPlaces {
		return s.Errorf("source",
			"source has %d places: give 1 to %d: files, globs such as exports/*.parquet, or folders",
			len(src.Files), maxPlaces)
	}

	for i, place := range src.Files {
		path := "source"
		for _, at := range []string{"source.files[%d]", "source.files", "source[%d]"} {
			if full := strings.ReplaceAll(at, "%d", strconv.Itoa(i)); s.doc.Has(full) {
				path = full
				break
			}
		}
		if err := CheckPlace(place); err != nil {
			return s.Errorf(path, "%v", err)
		}
		var forms string
		for _, mark := range dateMark.FindAllStringSubmatch(place, -1) {
			forms += mark[1] + " "
		}
		switch {
		case place == "":
			return s.Errorf(path, "the place is empty: give a file, a glob such as exports/*.parquet or a folder")
		case strings.ContainsRune(place, 0):
			return s.Errorf(path, "source %q holds a NUL, which no file's name does", place)
		case slices.Contains(src.Files[:i], place):
			return s.Errorf(path, "%s is listed twice", place)
		case strings.Contains(dateMark.ReplaceAllString(place, ""), "{date"):
			return s.Errorf(path, "%.80q: write a day as {date:2006-01-02}, in quotes inside [ ] and { }", place)
		case forms == "" && src.Last > 0:
			return s.Errorf(path, "last needs {date:2006-01-02} in every place, as in gs://B/{date:2006-01-02}/*.csv")
		case forms != "" && slices.ContainsFunc(dayForms, func(f string) bool { return !strings.Contains(forms, f) }):
			return s.Errorf(path,
				"{date:...} needs the year as 2006, the month as 01 and the day as 02, in any order: "+
					"days that differ need places that differ")
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

// Place is where to look for some of a table's files.
type Place struct {
	Pattern string // a file, a glob or a folder
	// Fixed is the part of Pattern that is the same for all files: folders NAME=VALUE behind it are columns.
	Fixed string
	Day   string // as 2006-01-02; empty for a place that is no day's
}

// Places lists where the files are, given the newest day that is complete.
func (s SourceSpec) Places(newest time.Time) []Place {
	var out []Place
	for _, place := range s.Files {
		if !dateMark.MatchString(place) {
			out = append(out, Place{Pattern: place, Fixed: fixed(place)})
			continue
		}
		for back := range int(max(1, s.Last)) {
			day := newest.AddDate(0, 0, -back)
			pattern := dateMark.ReplaceAllStringFunc(place, func(mark string) string {
				form := dateMark.FindStringSubmatch(mark)[1]
				return strings.NewReplacer("2006", day.Format("2006"), "01", day.Format("01"), "02", day.Format("02")).
					Replace(form)
			})
			out = append(out, Place{Pattern: pattern, Fixed: fixed(place), Day: day.Format(time.DateOnly)})
		}
	}
	slices.SortStableFunc(out, func(a, b Place) int { return cmp.Compare(a.Day, b.Day) })
	return out
}

// fixed is a place up to the folder in which something varies.
func fixed(place string) string {
	i := strings.IndexAny(place, "*?[\\")
	if mark := dateMark.FindStringIndex(place); mark != nil && (i < 0 || mark[0] < i) {
		i = mark[0]
	}
	if i < 0 {
		return place
	}
	return place[:strings.LastIndex(place[:i], "/")+1]
}
