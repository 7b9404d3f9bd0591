package cli

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

var (
	fenced    = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan  = regexp.MustCompile("(?s)`([^`]+)`")
	typedHere = regexp.MustCompile(`(?:^|[ /&|;(])(?:coppice|launcher) ([a-z-]+(?: .*)?)$`)
	flagHere  = regexp.MustCompile(`(?:^| )--([a-z][a-z-]*)`)
)

// TestPagesNameCommands: what the pages say to type has verbs and flags that exist. LAB.md and CHANGELOG.md tell of
// those that are gone.
func TestPagesNameCommands(t *testing.T) {
	const root = "../../.."
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") && name != ".." || name == "build"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md" || name == "LAB.md" || name == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, code := range codeOf(string(text)) {
			if m := typedHere.FindStringSubmatch(code); m != nil {
				found++
				if wrong := wrongCommand(m[1]); wrong != "" {
					t.Errorf("%s: `%s`: %s", strings.TrimPrefix(path, root+"/"), m[0], wrong)
				}
			}
		}
		return nil
	})
	if err != nil || found < 100 {
		t.Errorf("%d commands were found in pages (%v), expected at least 100", found, err)
	}
}

// codeOf returns the code of a page: each line of its blocks, and each span within its paragraphs as one line.
func codeOf(page string) (code []string) {
	lines := func(block string) {
		for _, line := range strings.Split(block, "\n") {
			if !strings.HasPrefix(line, "import ") { // of Python
				code = append(code, strings.Join(strings.Fields(line), " "))
			}
		}
	}
	page = fenced.ReplaceAllStringFunc(page, func(block string) string {
		lines(block)
		return ""
	})
	for _, paragraph := range strings.Split(page, "\n\n") {
		if strings.HasPrefix(paragraph, "    ") {
			lines(paragraph)
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(paragraph, -1) {
			code = append(code, strings.Join(strings.Fields(m[1]), " "))
		}
	}
	return code
}

// wrongCommand says which command or flag of a command line, without the program's name, does not exist; "" if all do.
func wrongCommand(line string) string {
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " && ")
	words := strings.Fields(line)
	if slices.Contains([]string{"task", "aggregator", "localemu"}, words[0]) {
		return "" // another program
	}
	command := rootCommand(&Setup{})
	command.InitDefaultCompletionCmd()
	for len(words) > 0 && command.HasSubCommands() {
		i := slices.IndexFunc(command.Commands(), func(c *cobra.Command) bool { return c.Name() == words[0] })
		if i < 0 {
			if command.HasParent() && !regexp.MustCompile(`^[a-z]+$`).MatchString(words[0]) {
				break // an argument or a flag of a command that has others below it
			}
			return "there is no command " + words[0]
		}
		command, words = command.Commands()[i], words[1:]
	}
	for _, m := range flagHere.FindAllStringSubmatch(strings.Join(words, " "), -1) {
		if name := m[1]; name != "help" && command.Flags().Lookup(name) == nil {
			return command.Name() + " has no flag --" + name
		}
	}
	return ""
}

// aroundSweep and aroundDataset are, by key, what makes a part of sweep.yaml or dataset.yaml a whole spec.
var (
	aroundSweep   = map[string]string{"name": "t", "dataset": "clicks", "metric": "log_loss", "trials": "20"}
	aroundDataset = map[string]string{"name": "t", "source": "t.csv", "label": "y",
		"split": "{by: time, column: ts, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}"}
)

// TestPartsOfSpecsAreTaken: each part of a spec that the pages show is taken when it is completed to a whole spec. Of a
// block that shows a key several times, each is tried.
func TestPartsOfSpecsAreTaken(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	parts := 0
	for _, page := range []string{"data.md", "sweep.md", "run.md"} {
		text := must.Get(os.ReadFile(filepath.Join("../../../docs", page)))(t)
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "name: ") {
				continue // a whole one
			}
			entries := entriesOf(m[1])
			for i := range entries {
				parts++
				if spec, err := parsePart(entries, i); err != nil {
					t.Errorf("docs/%s shows this part, which is refused: %v\n%s", page, err, spec)
				}
			}
		}
	}
	if parts < 18 {
		t.Errorf("%d parts of specs were found, expected at least 18", parts)
	}
}

// specEntry is a key at the top of a block, and the text from there to the next one.
type specEntry struct{ key, text string }

// entriesOf splits a block at its top keys. What is before the first key is left out.
func entriesOf(block string) (entries []specEntry) {
	for _, line := range strings.SplitAfter(block, "\n") {
		if key, _, ok := strings.Cut(line, ":"); ok && regexp.MustCompile(`^[a-z_]+$`).MatchString(key) {
			entries = append(entries, specEntry{key, line})
		} else if n := len(entries); n > 0 {
			entries[n-1].text += line
		}
	}
	return entries
}

// parsePart reads a spec of entry i, the block's other keys and what else a spec needs. It returns the spec's text, and
// why it is refused.
func parsePart(entries []specEntry, i int) (string, error) {
	chosen := map[string]string{entries[i].key: entries[i].text}
	for _, e := range entries {
		chosen[e.key] = cmp.Or(chosen[e.key], e.text)
	}
	around := aroundSweep
	isDataset := slices.Contains([]string{"source", "label", "encodings", "contract"}, entries[i].key)
	if isDataset {
		around = aroundDataset
	}
	var b strings.Builder
	for _, key := range []string{"name", "dataset", "source", "label", "split", "metric", "trials"} {
		// A search of features runs as many trials as it takes, so it has no number of them.
		open := key == "trials" && strings.Contains(chosen["search"], "features:")
		if around[key] != "" && chosen[key] == "" && !open {
			b.WriteString(key + ": " + around[key] + "\n")
		}
	}
	for _, text := range chosen {
		b.WriteString(text)
	}
	var err error
	if isDataset {
		_, err = dataset.ParseSpec("dataset.yaml", []byte(b.String()))
	} else {
		_, err = sweep.ParseSpec("sweep.yaml", []byte(b.String()), plan.Vocabulary())
	}
	return b.String(), err
}

// TestKeysAreDocumented: every key of dataset.yaml and sweep.yaml is in code on the spec's page or, as those of the
// gate and the contract, in run.md.
func TestKeysAreDocumented(t *testing.T) {
	read := func(page string) string {
		text := must.Get(os.ReadFile(filepath.Join("../../../docs", page)))(t)
		return strings.Join(codeOf(string(text)), "\n")
	}
	nights := read("run.md")
	for page, spec := range map[string]reflect.Type{
		"data.md": reflect.TypeFor[dataset.Spec](), "sweep.md": reflect.TypeFor[sweep.Spec](),
	} {
		keys, code := keysOf(spec, map[reflect.Type]bool{}), read(page)
		if len(keys) < 40 {
			t.Errorf("%s has %d keys, expected at least 40", spec, len(keys))
		}
		for _, key := range keys {
			word := regexp.MustCompile(`(^|[^a-z_])` + key + `($|[^a-z_])`)
			if !word.MatchString(code) && !word.MatchString(nights) {
				t.Errorf("docs/%s lacks the key `%s`: add it to its table", page, key)
			}
		}
	}
}

// keysOf returns the keys of a spec's type and of all types within it that seen does not have yet.
func keysOf(of reflect.Type, seen map[reflect.Type]bool) (keys []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || seen[of] {
		return nil
	}
	seen[of] = true
	for i := range of.NumField() {
		field := of.Field(i)
		if key := field.Tag.Get("yaml"); key != "" && key != "-" {
			keys = append(keys, key)
			keys = append(keys, keysOf(field.Type, seen)...)
		}
	}
	return keys
}

// shipped returns the specs that people copy, by the file or the document that has them.
func shipped(t *testing.T) map[string]string {
	t.Helper()
	const root = "../../.."
	specs := map[string]string{}
	read := func(path string) string {
		text := must.Get(os.ReadFile(path))(t)
		return string(text)
	}

	for _, tree := range []string{"examples", "terraform/examples"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, tree), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (filepath.Ext(path) == ".yaml" || filepath.Ext(path) == ".yml") {
				specs[strings.TrimPrefix(path, root+"/")] = read(path)
			}
			return err
		}))
	}

	// Whole specs in the documentation begin with a name; the other blocks are parts of one.
	block := regexp.MustCompile("(?ms)^```yaml\n(name: .*?)^```$")
	for _, doc := range []string{"docs/sweep.md", "docs/data.md"} {
		found := block.FindAllStringSubmatch(read(filepath.Join(root, doc)), -1)
		if len(found) == 0 {
			t.Errorf("%s has no yaml block with a whole spec, want one", doc)
		}
		for _, m := range found {
			specs[doc] = m[1]
		}
	}
	// The acceptance run writes its own sweep.
	script := read(filepath.Join(root, "terraform/acceptance.sh"))
	m := regexp.MustCompile("(?ms)^sweep_spec\\(\\) \\{\n  cat <<END\n(.*?)^END$").FindStringSubmatch(script)
	if m == nil {
		t.Fatal("terraform/acceptance.sh has no sweep_spec with a text, want the sweep that it runs")
	}
	specs["terraform/acceptance.sh"] = strings.NewReplacer("$MACHINE", "n2-highmem-2", "$SSDS", "2").Replace(m[1])
	return specs
}

// TestShippedSpecsAreTaken: the launcher plans every sweep and reads every dataset that ships, so that nobody begins
// with a spec that it refuses. A file that is neither is an error, so that none is passed over. Every line of a plan
// has at most the 80 columns of a terminal that does not tell its width. The line to paste into the spec may have 100:
// it is one line of YAML, which must not be broken.
func TestShippedSpecsAreTaken(t *testing.T) {
	w := newWorld(t)
	w.env, w.screen = map[string]string{"NO_COLOR": "1"}, true
	sweeps, datasets := 0, 0
	for name, text := range shipped(t) {
		switch {
		case regexp.MustCompile(`(?m)^source:`).MatchString(text):
			datasets++
			if _, err := dataset.ParseSpec(name, []byte(text)); err != nil {
				t.Errorf("reading the dataset %s: %v", name, err)
			}
		case regexp.MustCompile(`(?m)^(trials|search): `).MatchString(text):
			sweeps++
			file := w.file("sweep.yaml", text)
			code, out, errOut := w.run("plan", file, "--rows", "130000000", "--features", "40")
			if code != 0 {
				t.Errorf("planning the sweep %s ended with %d, expected 0\n%s%s", name, code, out, errOut)
			}
			for line := range strings.Lines(out) {
				most := 80
				if strings.HasPrefix(line, "machine: ") {
					most = 100
				}
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > most {
					t.Errorf("%s: a line of %d characters, expected at most %d: %s", name, n, most, line)
				}
			}
		default:
			t.Errorf("%s is neither a dataset (source:) nor a sweep (trials:)", name)
		}
	}
	if sweeps < 5 || datasets < 3 {
		t.Errorf("%d sweeps and %d datasets were found, expected at least 5 and 3", sweeps, datasets)
	}
}
