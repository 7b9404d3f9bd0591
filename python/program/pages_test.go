package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coppice/internal/gbt"
	"coppice/internal/must"
)

// programEnv is a variable of the environment that has the test's program be coppice, to ask it for its help.
const programEnv = "COPPICE_TEST_PROGRAM"

// TestMain runs the tests, or coppice if programEnv is set.
func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var (
	inline  = regexp.MustCompile("`([^`]*)`")                                                 // code in a sentence
	comment = regexp.MustCompile(`\s#.*|[|;&"].*`)                                            // the rest of a line
	verb    = regexp.MustCompile(`^[a-z]+$`)                                                  // registry, show
	flag    = regexp.MustCompile(`(?:^| )(--[a-z][a-z-]*)`)                                   // --dataset
	other   = regexp.MustCompile(`^\s*(?:bin/)?(?:launcher|task|aggregator|localemu) [a-z]+`) // an older name
)

// TestPagesNameCommands: the program knows every command and flag that a page of the project tells a reader to type, by
// the program's own --help. Pages name the program coppice, as it is installed. At least 100 commands have to be found,
// so that the test does not pass because it finds none.
func TestPagesNameCommands(t *testing.T) {
	helps, asked := map[string]string{}, 0
	for page, text := range pages(t) {
		var commands []string
		for _, line := range code(text) {
			if said := other.FindString(line); said != "" {
				t.Errorf("%s says %q: name the program as it is installed, coppice", page, said)
			}
			for _, part := range strings.Split(" "+line, " coppice ")[1:] {
				part, _, _ = strings.Cut(part, " -- ")
				commands = append(commands, comment.ReplaceAllString(part, ""))
			}
		}
		for _, command := range commands {
			words := strings.Fields(command)
			if len(words) == 0 || !verb.MatchString(words[0]) {
				continue // coppice alone
			}
			path := words[:1]
			parent := programs[words[0]] != nil || words[0] == "registry" || words[0] == "datasets"
			if parent && len(words) > 1 && verb.MatchString(words[1]) {
				path = words[:2]
			}
			name := strings.Join(path, " ")
			if _, found := helps[name]; !found {
				helps[name] = help(t, path)
			}
			asked++
			usage := "\n  coppice " + name
			if programs[words[0]] != nil {
				usage = "\n  " + name
			}
			if !slices.Contains(path, "help") && !strings.Contains(helps[name], usage) {
				t.Errorf("%s: there is no command `coppice %s`", page, name)
				continue
			}
			for _, m := range flag.FindAllStringSubmatch(command, -1) {
				if !regexp.MustCompile(`\s` + m[1] + `\b`).MatchString(helps[name]) {
					t.Errorf("%s: `coppice %s` has no flag %s, in %q", page, name, m[1], command)
				}
			}
		}
	}
	if asked < 100 {
		t.Errorf("found %d commands in pages, want at least 100", asked)
	}
}

// pages returns the text of the project's Markdown files by path. It leaves out those that tell of the past, in which
// commands may be gone, and folders that are built or hidden.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root, found := filepath.Join("..", ".."), map[string]string{}
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "build" || name == "bin" || strings.HasPrefix(name, ".") && name != ".."):
			return fs.SkipDir
		case filepath.Ext(path) != ".md" || name == "LAB.md" || name == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	}))
	return found
}

// code returns a page's lines of code, without Python's, followed by the texts in backquotes.
func code(page string) (lines []string) {
	language, prose := "", []string{}
	for line := range strings.SplitSeq(page, "\n") {
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence && language == "":
			language = line
		case fence:
			language = ""
		case language == "```python":
		case language != "" || strings.HasPrefix(line, "    "):
			// Blanks for marks, so that a command in quotes or brackets is found.
			lines = append(lines, strings.NewReplacer(`"`, " ", "`", " ", "(", " ").Replace(line))
		default:
			prose = append(prose, line)
		}
	}
	for _, m := range inline.FindAllStringSubmatch(strings.Join(prose, " "), -1) {
		lines = append(lines, m[1])
	}
	return lines
}

// help returns what `coppice PATH --help` prints. If it fails, that is what it says of the error.
func help(t *testing.T, path []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append(slices.Clone(path), "--help")...)
	cmd.Env = append(os.Environ(), programEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("coppice %s --help: %v", strings.Join(path, " "), err)
	}
	return string(out)
}

// features is the number of features of the models below.
const features = 3

// model returns the text of a model of that many trees, each with two nodes, as the Python package would send it. Its
// values are random, but the same each time.
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
			Decision:  []uint8{8, 10}, Left: []int{1, ^0}, Right: []int{^2, ^1}, // 8: NaN is missing; 2: it goes left
			Gain: make([]float64, 2), LeafValue: []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()},
			LeafWeight: make([]float64, 3), LeafCount: make([]int, 3), InternalValue: make([]float64, 2),
			InternalWeight: make([]float64, 2), InternalCount: make([]int, 2), Shrinkage: 1})
	}
	var text bytes.Buffer
	must.Get(m.WriteTo(&text))(tb)
	return text.Bytes()
}

// sent returns what the Python package writes for a model's text and rows.
func sent(text []byte, rows []float64) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	out, _ = binary.Append(append(out, text...), binary.LittleEndian, rows)
	return out
}

// trickle gives a few bytes at a time, as a pipe may.
type trickle struct{ r io.Reader }

func (t trickle) Read(p []byte) (int, error) { return t.r.Read(p[:min(len(p), 1+len(p)/3)]) }

// TestTrees: the scores are those of PredictRow to the bit, for no rows, for one, and for more than one part of them,
// on one thread and on two, and for a model with three outputs. The input comes in small pieces, and every ninth value
// or so is missing.
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
			t.Fatalf("%+v: got error %v, want none", c, err)
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

// TestTreesRefused: input that is cut or too long, and pipes that break on either side, are errors that say what was
// being read or written. A row here has 24 bytes, so an input without its last 9 ends 15 bytes into one.
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

// FuzzTrees: whatever the input, it is refused with an error or scored, and then whole scores come out.
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
