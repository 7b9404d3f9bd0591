// Package arch_test holds the rules of the house as a test: what may import what, where dangerous things may be used,
// that every package says what it is for, and that every folder has its place.
package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers: a package may import packages of lower layers only. Contract and engines know only the YAML reader;
// adapters know contract and engines; stages know all of those, never each other. See docs/design.md.
var layers = map[string]int{
	"internal/problem": -2, // kinds of errors, and how a program ends with each

	"internal/strictyaml": -1,
	"internal/exact":      -1, // logarithm and exponential with the same bits everywhere, numbers as integers in order

	"internal/atomicfile": 0, // files that appear whole
	"internal/expression": 0, // the language of conditions and values
	"internal/must":       0, // steps of tests that have to succeed
	"internal/random":     0, // the generator that search, calibrator and encoders draw from
	"internal/strictjson": 0,

	"internal/sweep":     1,
	"internal/dataset":   1,
	"internal/gbt":       1,
	"internal/metric":    1,
	"internal/calibrate": 1,
	"internal/blob":      1,
	"internal/machines":  1, // machine types and prices
	"internal/engine":    1, // what runs jobs, in our words
	"internal/cloud":     1, // what the adapters share
	"terraform":          1, // the deployment's table of rights
	"internal/protocol":  1, // the rules by which tasks and aggregators share a sweep, without I/O

	"internal/nights":         2, // what a night's table has to keep to
	"internal/search":         2,
	"internal/registry":       2,
	"internal/cloud/gcs":      2,
	"internal/cloud/pubsub":   2,
	"internal/cloud/batch":    2,
	"internal/slurm":          2, // jobs on a cluster
	"internal/cloud/bigquery": 2, // rows by query
	"internal/cloud/idtoken":  2, // who calls
	"internal/cloud/inspect":  2,
	"internal/notify":         2, // who is told what became of a night
	"internal/sweepstore":     2, // the objects of a sweep
	"internal/fit":            2, // one candidate on one dataset
	"internal/team":           2, // one model, several processes

	"internal/dataset/datasettest": 2, // for tests of everything above

	"internal/ledger":    3, // what a sweep has cost so far
	"internal/scorer":    3, // a registered version, ready to predict
	"internal/telemetry": 3, // measurements on their way out
	"internal/program":   3, // what the programs' command lines have in common; the form of tables
	"internal/page":      3, // what people look at: a view in, one file out

	"launcher":   4,
	"task":       4,
	"aggregator": 4,
	"localemu":   4,

	"examples":  4,
	"container": 4, // what only the images need
	"bench":     4, // measures the others from outside; see docs/LAB.md

	"python": 5, // the four programs in one, as the wheel carries them

	"e2e": 5, // tests of the built programs

	"internal/arch": 5, // the rules themselves
}

// within names the folders whose packages may import each other, because they are one room.
var within = []string{"internal/dataset", "internal/nights", "internal/blob",
	"internal/program", "internal/page", "launcher", "task", "aggregator", "localemu"}

// only says which folders or files may import a package. A path ending in a slash stands for all below it.
var only = []struct {
	pkg   string
	where []string
	why   string
}{
	{"unsafe", []string{"internal/dataset/", "internal/gbt/*_hot.go", "internal/program/child_windows.go"},
		"memory safety is given up only for the mapping, the measured loops and a call of Windows"},
	{"golang.org/x/sys/unix", []string{"internal/dataset/"}, "the mapping has one owner"},
	{"cloud.google.com/go/storage", []string{"internal/cloud/gcs/"}, "one adapter knows Google's storage client"},
	{"cloud.google.com/go/pubsub/", []string{"internal/cloud/pubsub/", "localemu/"},
		"one adapter knows Google's Pub/Sub client; the emulator serves it"},
	{"cloud.google.com/go/batch/", []string{"internal/cloud/batch/", "localemu/"},
		"one adapter knows Google's Batch client; the emulator serves it"},
	{"google.golang.org/api/bigquery/", []string{"internal/cloud/bigquery/", "localemu/"},
		"one adapter knows Google's BigQuery client; the emulator serves it"},
	{"github.com/coreos/go-oidc/", []string{"internal/cloud/idtoken/"}, "one place judges tokens"},
	{"github.com/apache/arrow/", []string{"internal/dataset/"},
		"moving to another release must stay a one-folder change"},
	{"github.com/dmitryikh/leaves", []string{"aggregator/", "bench/"},
		"the independent scorer checks the trainer, and is a peer to measure; nobody predicts with it"},
	{"github.com/expr-lang/expr", []string{"internal/expression/"}, "one place knows the library of expressions"},
	{"github.com/hashicorp/hcl/", []string{"terraform/"}, "only the deployment's tests read Terraform's language"},
	{"github.com/goccy/go-yaml", []string{"internal/strictyaml/"}, "one place reads YAML"},
	{"go.opentelemetry.io/otel/sdk/", []string{"internal/telemetry/"},
		"who measures knows OpenTelemetry's interface, and not where it goes"},
	{"go.opentelemetry.io/otel/exporters/", []string{"internal/telemetry/", "launcher/internal/serve/"},
		"who measures knows OpenTelemetry's interface, and not where it goes"},
	{"github.com/prometheus/", []string{"launcher/internal/serve/"},
		"the task's image carries none of it"},
	{"go.opentelemetry.io/otel/", []string{"internal/telemetry/", "task/", "aggregator/", "launcher/internal/serve/"},
		"engines are measured by those who run them"},
	{"github.com/spf13/cobra", []string{"internal/program/", "launcher/", "task/", "aggregator/", "localemu/",
		"examples/", "bench/"}, "only programs have a command line"},
	{"github.com/sethvargo/go-envconfig", []string{"internal/program/", "launcher/", "task/", "aggregator/",
		"localemu/"}, "only programs read the environment"},
}

// wiring are the only files in which a stage may name an adapter: everything behind them works on interfaces.
var wiring = []string{"launcher/command/wire.go", "task/command/wire.go", "aggregator/command/wire.go"}

// mains are the only files that may end the process or read the environment directly.
var mains = []string{"launcher/main.go", "task/main.go", "aggregator/main.go", "localemu/main.go",
	"localemu/command/command.go", // hands the command that it runs the files themselves
	"examples/clicks/main.go", "bench/gauge/main.go", "container/roots/main.go", "python/program/main.go"}

// knowsItself is why program imports no engine.
const knowsItself = "an error says its class itself; what every program links must not list the errors of all engines"

// emulated is why only the program that carries all four imports the local cloud.
const emulated = "production code never knows that it is being emulated"

// never are imports that nothing but tests may have.
var never = []struct{ from, pkg, why string }{
	{"internal", "coppice/localemu", emulated},
	{"launcher", "coppice/localemu", emulated},
	{"task", "coppice/localemu", emulated},
	{"aggregator", "coppice/localemu", emulated},
	{"container", "coppice/localemu", emulated},
	{"", "coppice/internal/blob/blobtest", "a test suite"},
	{"", "coppice/internal/dataset/datasettest", "it makes data for tests"},
	{"", "coppice/internal/nights/nightstest", "it makes data for tests"},
	{"", "coppice/internal/must", "it ends a test"},
	{"", "coppice/internal/page/pagetest", "it drives a browser for tests"},
	{"internal/program", "coppice/internal/gbt", knowsItself},
	{"internal/program", "coppice/internal/dataset", knowsItself},
	{"internal/program", "coppice/internal/metric", knowsItself},
	{"internal/program", "coppice/internal/search", knowsItself},
	{"internal/program", "coppice/internal/registry", knowsItself},
	{"internal/program", "coppice/internal/machines", knowsItself},
	{"task", "coppice/internal/dataset/ingest", "a task reads what is staged"},
	{"task", "coppice/internal/dataset/cell", "a task reads what is staged"},
	{"task", "coppice/internal/dataset/table",
		"a task reads what is staged; the readers of tables would be a seventh of its binary"},
	{"", "math/rand", "math/rand/v2 has generators with fixed algorithms"},
	{"", "io/ioutil", "deprecated"},
}

// namers may make names of a sweep's objects and take them apart. Whoever else did so through a blob.Store would have
// an opinion of its own of what an object means that is damaged, too long or another's.
var namers = []string{"internal/sweep/", "internal/sweepstore/"}

// objectNames are the words of package sweep for such names, and namesLike what they look like where they are spelt
// out.
var (
	objectNames = []string{"Names", "PlansPrefix", "ParsePlanName"}
	namesLike   = regexp.MustCompile(`^(plans|sweeps)/\S*$|^(\S*/)?(trials|claims|heartbeats|releases|checkpoints|curves|attempts)/\S*$|^/?(cancel|ending|conclusion)\.json$`)
)

// TestMain runs the tests in the root folder of the repository, since all of them read files from there.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// goFile is a Go file of the repository.
type goFile struct {
	path    string // from the root, with slashes
	dir     string // the same of its folder
	test    bool   // its name ends in _test.go
	ast     *ast.File
	imports []string // paths of packages
	length  int      // lines, with comments and empty ones
	lines   int      // of code (linesOfCode)
}

// reporter is the part of *testing.T that the rules use, so that TestRulesBite can see what they report.
type reporter interface {
	Errorf(format string, args ...any)
}

// TestHouse: every Go file is in a folder that layers lists, has at most 600 lines with its comments unless it is a
// test, and keeps to the rules about imports, calls and names that the check functions below know. Every package has a
// comment.
func TestHouse(t *testing.T) {
	files := parseAll(t)
	commented := map[string]bool{}
	for _, f := range files {
		if room(f.dir) == "" && f.dir != "." {
			t.Errorf("%s: the folder has no place in the house; give it one in layers, with a reason in docs/design.md",
				f.path)
			continue
		}
		if !f.test {
			commented[f.dir] = commented[f.dir] || f.ast.Doc != nil
		}
		if most := 600; f.length > most && !f.test {
			t.Errorf("%s: %d lines, expected at most %d", f.path, f.length, most)
		}
		if f.dir == "." {
			continue
		}
		checkImports(t, f)
		checkOnly(t, f)
		checkNever(t, f)
		checkCalls(t, f)
		checkNames(t, f)
	}
	for dir, has := range commented {
		if !has {
			t.Errorf("%s: got no package comment, want one in some file", dir)
		}
	}
}

// room returns the entry of layers that the folder dir belongs to: dir itself or the nearest folder above it that is
// listed. It is "" if none is.
func room(dir string) string {
	for d := dir; d != "."; d = path.Dir(d) {
		if _, ok := layers[d]; ok {
			return d
		}
	}
	return ""
}

// checkImports reports every import of a package of this project that is not of a lower layer. Tests may also import
// any engine, adapter or emulator, and packages of one entry of within each other. Adapters of clouds are imported by
// the files of wiring alone.
func checkImports(t reporter, f goFile) {
	for _, imp := range f.imports {
		dir, ok := strings.CutPrefix(imp, "coppice/")
		if !ok {
			continue
		}
		from, to := room(f.dir), room(dir)
		switch {
		case from == to && slices.Contains(within, from):
		case f.test && layers[to] <= 3: // a test may lean on any engine or adapter
		case f.test && to == "localemu":
		case layers[to] >= layers[from]:
			t.Errorf("%s imports %s: imports go strictly down the layers", f.path, imp)
		case layers[to] == 1 && layers[from] == 1:
			t.Errorf("%s imports %s: engines do not know each other", f.path, imp)
		case strings.HasPrefix(to, "internal/cloud/") && layers[from] >= 3 && from != "localemu" &&
			!slices.Contains(wiring, f.path):
			t.Errorf("%s imports %s: only %s may", f.path, imp, strings.Join(wiring, ", "))
		}
	}
}

// checkOnly reports every import of a package that only others may import, by the table only. Tests are exempt.
func checkOnly(t reporter, f goFile) {
	if f.test {
		return
	}
	for _, rule := range only {
		for _, imp := range f.imports {
			if imp != strings.TrimSuffix(rule.pkg, "/") && !strings.HasPrefix(imp, strings.TrimSuffix(rule.pkg, "/")+
				"/") {
				continue
			}
			if !slices.ContainsFunc(rule.where, func(w string) bool { return matches(w, f.path) }) {
				t.Errorf("%s imports %s, which only %s may: %s", f.path, imp, strings.Join(rule.where, ", "), rule.why)
			}
		}
	}
}

// matches says whether the path of a file matches a pattern of path.Match, or is below a folder if the pattern ends in
// a slash.
func matches(pattern, file string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(file, pattern)
	}
	ok, _ := path.Match(pattern, file)
	return ok
}

// checkNever reports every import that the table never forbids. Tests are exempt, and so are the packages below the
// forbidden one.
func checkNever(t reporter, f goFile) {
	for _, rule := range never {
		if f.test || !strings.HasPrefix(f.dir, rule.from) {
			continue
		}
		for _, imp := range f.imports {
			inside := strings.HasPrefix(f.dir+"/", strings.TrimPrefix(rule.pkg, "coppice/")+"/")
			if (imp == rule.pkg || strings.HasPrefix(imp, rule.pkg+"/") && rule.pkg != "math/rand") && !inside {
				t.Errorf("%s imports %s: %s", f.path, imp, rule.why)
			}
		}
	}
}

// checkCalls reports calls that end the process, read the environment or print past program.Output, except in the files
// of mains. In tests it reports only time.Sleep.
func checkCalls(t reporter, f goFile) {
	forbidden := map[string]string{
		"os.Exit": "only main ends the process", "log.Fatal": "only main ends the process",
		"log.Fatalf":   "only main ends the process",
		"os.Getenv":    "settings come in through the environment structs of package sweep",
		"os.LookupEnv": "settings come in through the environment structs of package sweep",
	}
	if !matches("internal/program/", f.path) {
		for _, name := range []string{"os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println",
			"table.NewWriter"} {
			forbidden[name] = "what is shown goes through a program.Output, and tables are made by program/tables: " +
				"others' texts must not command a terminal"
		}
	}
	if f.test {
		forbidden = map[string]string{"time.Sleep": "a test waits for what it means, not for time"}
	}
	if slices.Contains(mains, f.path) {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok {
			name := pkg.Name + "." + sel.Sel.Name
			if why := forbidden[name]; why != "" && pkg.Obj == nil && !(f.test && name == "os.Exit") {
				t.Errorf("%s uses %s: %s", f.path, name, why)
			}
		}
		return true
	})
}

// checkNames reports names of a sweep's objects in files that are not of namers, whether they are made by package sweep
// or spelt out, so that only those packages read and write the objects. Tests are exempt.
func checkNames(t reporter, f goFile) {
	if f.test || slices.ContainsFunc(namers, func(w string) bool { return matches(w, f.path) }) {
		return
	}
	contract := "" // what the file calls package sweep
	for _, imp := range f.ast.Imports {
		if imp.Path.Value != `"coppice/internal/sweep"` {
			continue
		}
		contract = "sweep"
		if imp.Name != nil {
			contract = imp.Name.Name
		}
	}

	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && contract != "" && pkg.Name == contract &&
				slices.Contains(objectNames, n.Sel.Name) {
				t.Errorf("%s uses sweep.%s: only %s names a sweep's objects", f.path, n.Sel.Name,
					strings.Join(namers, ", "))
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil &&
				namesLike.MatchString(text) {
				t.Errorf("%s spells out %q: only %s names a sweep's objects", f.path, text, strings.Join(namers, ", "))
			}
		}
		return true
	})
}

// recorder is a reporter that keeps what is reported.
type recorder []string

func (r *recorder) Errorf(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

// TestRulesBite: each rule reports a file that breaks it, and does not report one that comes close. A case is the path
// of a file and its text after the package clause.
func TestRulesBite(t *testing.T) {
	for name, tc := range map[string]struct {
		path, body string
		broken     bool
	}{
		"up":                 {"internal/gbt/x.go", `import _ "coppice/internal/registry"`, true},
		"sideways":           {"internal/gbt/x.go", `import _ "coppice/internal/dataset"`, true},
		"stage to stage":     {"task/internal/x/x.go", `import _ "coppice/launcher/internal/y"`, true},
		"inside a stage":     {"task/internal/x/x.go", `import _ "coppice/task/internal/y"`, false},
		"down":               {"internal/registry/x.go", `import _ "coppice/internal/blob"`, false},
		"adapter in a stage": {"task/internal/x/x.go", `import _ "coppice/internal/cloud/gcs"`, true},
		"adapter in wiring":  {"task/command/wire.go", `import _ "coppice/internal/cloud/gcs"`, false},
		"sdk":                {"task/command/wire.go", `import _ "cloud.google.com/go/storage"`, true},
		"unsafe":             {"internal/gbt/grow.go", `import _ "unsafe"`, true},
		"unsafe, hot":        {"internal/gbt/grow_hot.go", `import _ "unsafe"`, false},
		"arrow":              {"task/x.go", `import _ "github.com/apache/arrow/go/v17/arrow"`, true},
		"emulator":           {"launcher/x.go", `import _ "coppice/localemu/gcsemu"`, true},
		"emulator in a test": {"launcher/x_test.go", `import _ "coppice/localemu/gcsemu"`, false},
		"errors listed":      {"internal/program/x.go", `import _ "coppice/internal/gbt"`, true},
		"tables in a task":   {"task/internal/x/x.go", `import _ "coppice/internal/dataset/ingest"`, true},
		"old rand":           {"internal/metric/x.go", `import _ "math/rand"`, true},
		"new rand":           {"internal/metric/x.go", `import _ "math/rand/v2"`, false},
		"exit":               {"task/x.go", "import \"os\"\nfunc f() { os.Exit(1) }", true},
		"exit in main":       {"task/main.go", "import \"os\"\nfunc f() { os.Exit(1) }", false},
		"environment":        {"internal/blob/x.go", "import \"os\"\nvar x = os.Getenv(\"X\")", true},
		"an object's name": {"internal/ledger/x.go",
			"import \"coppice/internal/sweep\"\nvar x = sweep.Names(\"a\").Result(3)", true},
		"names, renamed": {"internal/ledger/x.go", "import s \"coppice/internal/sweep\"\nvar x = s.ParsePlanName",
			true},
		"names, in the store": {"internal/sweepstore/x.go",
			"import \"coppice/internal/sweep\"\nvar x = sweep.Names(\"a\").Result(3)", false},
		"names in a test": {"internal/ledger/x_test.go",
			"import \"coppice/internal/sweep\"\nvar x = sweep.Names(\"a\").Result(3)", false},
		"another's names": {"internal/gbt/x.go", "import \"coppice/internal/strictyaml\"\nvar x = strictyaml.Names",
			false},
		"a name spelt out": {"launcher/x.go", `var x = id + "/claims/0"`, true},
		"a plan spelt out": {"task/x.go", `var x = "plans/" + id`, true},
		"words":            {"launcher/x.go", `var x = "no result; the claims differ"`, false},
		"past the output":  {"task/internal/x/x.go", "import \"os\"\nvar x = os.Stderr", true},
		"a table of its own": {"task/internal/x/x.go",
			"import \"github.com/jedib0t/go-pretty/v6/table\"\nvar x = table.NewWriter()", true},
		"printed":         {"task/internal/x/x.go", "import \"fmt\"\nfunc f() { fmt.Println() }", true},
		"sleep in a test": {"internal/blob/x_test.go", "import \"time\"\nfunc f() { time.Sleep(1) }", true},
	} {
		f, err := parseSource(tc.path, []byte("package x\n"+tc.body))
		if err != nil {
			t.Fatalf("%s: the case is no Go file: %v", name, err)
		}
		var r recorder
		for _, check := range []func(reporter, goFile){checkImports, checkOnly, checkNever, checkCalls, checkNames} {
			check(&r, f)
		}
		if (len(r) > 0) != tc.broken {
			t.Errorf("%s: broken %t, reported %q; want a report if it is broken, and only then", name, tc.broken, r)
		}
	}
}

// parseAll returns all Go files of the repository, without those in hidden folders, in folders named testdata, bin or
// build, and in those whose names begin with zz_. It reads them once for all tests.
func parseAll(t *testing.T) []goFile {
	t.Helper()
	if parsed != nil {
		return parsed
	}
	var files []goFile
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "zz_") || base == "testdata" ||
				base == "bin" || base == "build") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		f, err := parseFile(name)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatalf("cannot read the repository's Go files: %v", err)
	}
	if len(files) < 20 {
		t.Fatalf("found %d Go files, want at least 20; the rules were not checked", len(files))
	}
	parsed = files
	return files
}

// linesOfCode counts the lines of a file that are neither empty nor a comment's alone: who explains a step, or sets it
// apart, must not pay for it with code. A line of code with a comment behind it counts.
func linesOfCode(set *token.FileSet, file *ast.File, text string) int {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, group := range file.Comments {
		for _, comment := range group.List {
			first, last := set.Position(comment.Pos()), set.Position(comment.End())
			lines[first.Line-1] = lines[first.Line-1][:first.Column-1]
			for i := first.Line; i < last.Line; i++ {
				lines[i] = ""
			}
		}
	}
	n := 0
	for _, line := range lines {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	return n
}

// TestLinesOfCode: comments and empty lines are not counted; text that looks like a comment is.
func TestLinesOfCode(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want int
	}{
		"nothing":           {"package x\n", 1},
		"a comment":         {"// Package x.\n//\n// More.\npackage x\n", 1},
		"behind code":       {"package x // the smallest\n", 1},
		"a block":           {"package x\n\n/* one\ntwo */\nvar a int\n", 2},
		"a block, then one": {"package x\n\n/* one\ntwo */\n// three\nvar a int\n", 2},
		"text":              {"package x\n\nvar a = `\n// no comment\n`\n", 4},
	} {
		f, err := parseSource("x.go", []byte(tc.text))
		if err != nil {
			t.Fatalf("%s: the case is no Go file: %v", name, err)
		}
		if f.lines != tc.want {
			t.Errorf("%s: %d lines, expected %d", name, f.lines, tc.want)
		}
	}
}

// parsed is what parseAll has read, nil before its first call.
var parsed []goFile

// parseFile reads and parses the Go file of that name, which is relative to the root.
func parseFile(name string) (goFile, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return goFile{}, err
	}
	return parseSource(name, data)
}

// parseSource parses data as the text of the file of that name, which need not exist.
func parseSource(name string, data []byte) (goFile, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, data, parser.ParseComments)
	if err != nil {
		return goFile{}, fmt.Errorf("parse %s: %w", name, err)
	}
	slash := filepath.ToSlash(name)
	f := goFile{path: slash, dir: path.Dir(slash), test: strings.HasSuffix(name, "_test.go"), ast: file,
		length: strings.Count(string(data), "\n"), lines: linesOfCode(set, file, string(data))}
	for _, imp := range file.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			return goFile{}, err
		}
		f.imports = append(f.imports, p)
	}
	return f, nil
}
