package draft

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// written writes a CSV file of a header and so many rows, which row gives by their number, and returns its path.
func written(t *testing.T, header string, rows int, row func(i int) string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(header + "\n")
	for i := range rows {
		b.WriteString(row(i) + "\n")
	}
	path := filepath.Join(t.TempDir(), "My Table-2026.csv")
	must.Do(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// TestDecisions: for tables of each kind, the specs and the findings say what was decided, and both specs can be
// parsed. Unless the case says otherwise, a table has 2,000 rows, and its label is click.
func TestDecisions(t *testing.T) {
	day := func(i int) string {
		return time.Date(2026, 1, 1+i%50, i%24, 0, 0, 0, time.UTC).Format("2006-01-02 15:04")
	}
	for name, tc := range map[string]struct {
		header string
		row    func(i int) string
		ask    Request
		rows   int
		says   []string // texts that the two specs and the findings, joined, must have
		not    []string // texts that they must not have
	}{
		// i%3/2 is 1 in a third of the rows.
		"0 and 1, by time": {header: "ts,site,click",
			row: func(i int) string { return fmt.Sprintf("%s,s%d,%d", day(i), i%100, i%3/2) },
			says: []string{"label: \"click\"", "{by: time, column: \"ts\", train: 0.7", "objective: binary",
				"metric: log_loss"}},
		"seconds": {header: "ts,click",
			row:  func(i int) string { return fmt.Sprintf("%d,%s", 1704067200+i*60, "+-"[i%2:i%2+1]) },
			says: []string{"{by: random", "positive: \"+\"", "newer rows should judge, with --time ts"}},
		"times that some rows lack": {header: "ts,click",
			row:  func(i int) string { return []string{"", day(i)}[i%2] + []string{",0", ",1"}[i%3/2] },
			says: []string{"{by: random", "1,000 rows have no time in ts"}},
		"yes and no": {header: "a,y",
			row: func(i int) string { return fmt.Sprintf("%d,%s", i, []string{"no", "yes"}[i%2]) },
			ask: Request{Label: "y"}, says: []string{`{column: "y", positive: "yes"}`, "by: random"}},
		"two words": {header: "a,y",
			row: func(i int) string { return fmt.Sprintf("%d,%s", i, []string{"left", "left", "right"}[i%3]) },
			ask: Request{Label: "y"}, says: []string{`positive: "right"`}},
		"named positive": {header: "a,y",
			row: func(i int) string { return fmt.Sprintf("%d,%s", i, []string{"x", "y", "z"}[i%3]) },
			ask: Request{Label: "y", Positive: "y"}, says: []string{`{column: "y", positive: "y"}`,
				"; x, z count as negative (--missing VALUE leaves its rows out)"}},
		"three words": {header: "a,y",
			row:  func(i int) string { return fmt.Sprintf("%d,%s", i, []string{"red", "green", "blue"}[i%3]) },
			ask:  Request{Label: "y"},
			says: []string{`{column: "y", kind: classes}`, "objective: multiclass\nmetric: multi_logloss\n"}},
		"numbers as classes": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%4) },
			ask:  Request{Label: "y", Objective: "softmax", Metric: "merror"},
			says: []string{`{column: "y", kind: classes}`, "objective: multiclass\nmetric: merror\n"}},
		"numbers judged as classes": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%4) },
			ask:  Request{Label: "y", Metric: "multi_error"},
			says: []string{`{column: "y", kind: classes}`, "objective: multiclass\nmetric: multi_error\n"}},
		"1 and 2": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, 1+i%2) },
			ask: Request{Label: "y"}, says: []string{`positive: "2"`}},
		"a marker in another spelling": {header: "a,y",
			row:  func(i int) string { return fmt.Sprintf("%d,%s", i, []string{"0", "1", "-999.0"}[i%3]) },
			ask:  Request{Label: "y", Missing: []string{"-999"}},
			says: []string{`label: "y"`, "objective: binary", "left out"}},
		"numbers": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d.5", i, i) },
			ask: Request{Label: "y"}, says: []string{"kind: regression", "objective: regression", "metric: rmse"}},
		"a few numbers": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%5) },
			ask: Request{Label: "y"}, says: []string{"kind: regression"}},
		"regression of two numbers": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) },
			ask: Request{Label: "y", Objective: "regression"}, says: []string{"kind: regression"}},
		"an objective": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%5) },
			ask:  Request{Label: "y", Objective: "poisson"},
			says: []string{"kind: regression", "objective: poisson\nmetric: poisson\n"}},
		"an objective with a number": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%5) },
			ask: Request{Label: "y", Objective: "quantile@0.50"},
			says: []string{"objective: quantile\nmetric: quantile@0.5\n",
				"params: {num_iterations: 4000, alpha: 0.5}"}},
		"an objective with another metric": {header: "a,y",
			row:  func(i int) string { return fmt.Sprintf("%d,%d", i, i%5) },
			ask:  Request{Label: "y", Objective: "l1", Metric: "rmse"},
			says: []string{"objective: regression_l1\nmetric: rmse\n"}},
		"an order": {header: "query_id,a,ts,y",
			row: func(i int) string { return fmt.Sprintf("%d,%d,%s,%d", i/20, i, day(i), i%5) },
			ask: Request{Label: "y", Group: "query_id"},
			// 100 queries, which are neither tiny nor many.
			says: []string{`{by: hash, key: "query_id", train: 0.6, valid: 0.3, test: 0.1}`,
				"group: \"query_id\"\nencodings: {order: {by: group}}\n", "kind: regression",
				"objective: lambdarank\nmetric: ndcg@10\n"}, not: []string{"categorical"}},
		// 90 queries, fewer than tinyQueries (100).
		"an order of few queries": {header: "q,a,y", rows: 900,
			row: func(i int) string { return fmt.Sprintf("q%d,%d,%d", i/10, i, i%2) },
			ask: Request{Label: "y", Group: "q"}, says: []string{`{by: hash, key: "q", train: 0.6, valid: 0.4}`}},
		// A click is in every thousandth row, so in 40 of 4,000 queries. Only these count.
		"an order of few queries with clicks": {header: "q,a,y", rows: 40_000,
			row: func(i int) string { return fmt.Sprintf("q%d,%d,%d", i/10, i, max(0, i%1000-998)) },
			ask: Request{Label: "y", Group: "q"}, says: []string{`{by: hash, key: "q", train: 0.6, valid: 0.4}`}},
		// 4,000 queries, more than fewQueries (3,000).
		"an order of many queries, not neighbours": {header: "q,a,y", rows: 40_000,
			row:  func(i int) string { return fmt.Sprintf("q%d,%d,%d", i%4000, i, i%7) },
			ask:  Request{Label: "y", Group: "q"},
			says: []string{`{by: hash, key: "q", train: 0.8, valid: 0.1, test: 0.1}`}},
		"an order of yes and no, by time": {header: "q,a,ts,y",
			row: func(i int) string { return fmt.Sprintf("q%d,%d,%s,%s", i/20, i, day(i), []string{"no", "yes"}[i%2]) },
			ask: Request{Label: "y", Group: "q", Time: "ts", Positive: "yes", Objective: "xendcg", Metric: "map@5"},
			says: []string{`{by: time, column: "ts"`, "group: \"q\"\n", `positive: "yes"`,
				"objective: rank_xendcg\nmetric: map@5\n"}},
		// 400 users of five rows each.
		"by key": {header: "user_id,y", row: func(i int) string { return fmt.Sprintf("u%d,%d", i/5, i%2) },
			ask: Request{Label: "y"}, says: []string{`{by: hash, key: "user_id"`}},
		"a key for each row is none": {header: "user_id,y",
			row: func(i int) string { return fmt.Sprintf("u%d,%d", i, i%2) },
			ask: Request{Label: "y"}, says: []string{"by: random"}},
		"two times": {header: "a,b,y",
			row: func(i int) string { return fmt.Sprintf("%s,%s,%d", day(i), day(i+1), i%2) },
			ask: Request{Label: "y"}, says: []string{"by: random"}},
		"two times in few rows": {header: "a,b,y", rows: 500,
			row: func(i int) string { return fmt.Sprintf("%s,%s,%d", day(i), day(i+1), i%2) },
			ask: Request{Label: "y"}, says: []string{"by: classes",
				"at random, class by class (the rarest has 250 rows), since it is not clear which is the row's time"}},
		"two times, one named": {header: "start,ts,y",
			row: func(i int) string { return fmt.Sprintf("%s,%s,%d", day(i), day(i+1), i%2) },
			ask: Request{Label: "y"}, says: []string{`column: "ts"`}},
		"a birthday is no time of the row": {header: "birth_date,y",
			row: func(i int) string { return fmt.Sprintf("%s,%d", day(i), i%2) },
			ask: Request{Label: "y"}, says: []string{"by: random"}},
		"asked for": {header: "a,b,k,w,y",
			row: func(i int) string { return fmt.Sprintf("%d,%d,k%d,1,%d", i, i, i%50, i%2) },
			ask: Request{Label: "y", Key: "k", Weight: "w", Drop: []string{"a"}, Categorical: []string{"b"},
				Metric: "auc",
				Trials: 7, Seed: 3, Name: "mine"},
			says: []string{`{by: hash, key: "k"`, `weight: "w"`, `drop: ["a"]`, `categorical: ["b"]`, "metric: auc",
				"trials: 7", "seed: 3", "name: mine\n"}},
		"ids of numbers": {header: "campaign_id,row_id,paid,y",
			row: func(i int) string { return fmt.Sprintf("%d,%d,%d,%d", i%50, i, i%50, i%2) },
			ask: Request{Label: "y"}, not: []string{"categorical"},
			says: []string{"numeric: [\"campaign_id\"]\nencodings: {keys: [[\"campaign_id\"]]}\n",
				"fixed:\n    - " + ofIDs, "campaign_id: integers named like IDs, encoded as IDs and kept as numbers"}},
		// 32 are manyLevels.
		"ids of few numbers": {header: "campaign_id,y",
			row: func(i int) string { return fmt.Sprintf("%d,%d", i%32, i%2) },
			ask: Request{Label: "y"}, says: []string{"categorical: [\"campaign_id\"]\n"}, not: []string{"encodings"}},
		// Below leastNumbered, 1,500 rows.
		"ids in few rows": {header: "campaign_id,y", rows: 1400,
			row: func(i int) string { return fmt.Sprintf("%d,%d", i%50, i%2) },
			ask: Request{Label: "y"}, says: []string{"categorical: [\"campaign_id\"]\n"}, not: []string{"encodings"}},
		"ids with zeros before them": {header: "campaign_id,y",
			row: func(i int) string { return fmt.Sprintf("%03d,%d", i%50, i%2) },
			ask: Request{Label: "y"}, says: []string{"categorical: [\"campaign_id\"]\n"}, not: []string{"encodings"}},
		// From 2^53 + 0 on, which is 9007199254740992.
		"ids too long for a number": {header: "campaign_id,y",
			row: func(i int) string { return fmt.Sprintf("90071992547409%02d,%d", 92+i%50, i%2) },
			ask: Request{Label: "y"}, says: []string{"categorical: [\"campaign_id\"]\n"}, not: []string{"encodings"}},
		"an id that is no number, late": {header: "campaign_id,y", rows: 30_000,
			row: func(i int) string {
				if i == 29_000 {
					return "A7,1"
				}
				return fmt.Sprintf("%d,%d", i%50, i%2)
			},
			ask: Request{Label: "y"}, not: []string{"encodings", "numeric"}},
		"ids by time": {header: "ts,campaign_id,y",
			row: func(i int) string { return fmt.Sprintf("%s,%d,%d", day(i), i%50, i%2) },
			ask: Request{Label: "y"}, says: []string{"categorical: [\"campaign_id\"]\n"}, not: []string{"encodings"}},
		"ids beside a value": {header: "campaign_id,y",
			row: func(i int) string { return fmt.Sprintf("%d,%d.5", i%50, i) },
			ask: Request{Label: "y"}, says: []string{"categorical: [\"campaign_id\"]\n"}, not: []string{"encodings"}},
		// Ten of 2,000 rows.
		"a rare class": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, min(1, i/1990)) },
			ask:  Request{Label: "y"},
			says: []string{"{by: classes, seed: 1, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1}"}},
		"a time that is called an id": {header: "day_id,y",
			row: func(i int) string { return fmt.Sprintf("%d,%d", i/20, i%2) },
			ask: Request{Label: "y", Time: "day_id"}, says: []string{`column: "day_id"`}, not: []string{"categorical"}},
		"names with commas": {header: "\"a,b\",a,b,y",
			row: func(i int) string { return fmt.Sprintf("%d,%d,%d,%d", i, i, i, i%2) },
			ask: Request{Label: "y", Drop: []string{"a,b"}}, says: []string{`drop: ["a,b"]`}},
		"several with commas": {header: "a,b,c,y",
			row: func(i int) string { return fmt.Sprintf("%d,%d,%d,%d", i, i, i, i%2) },
			ask: Request{Label: "y", Drop: []string{"a,b"}}, says: []string{`drop: ["a", "b"]`}},
		"a rare class, at random": {header: "user_id,y", // a key, whose rows would stay together
			row: func(i int) string { return fmt.Sprintf("u%d,%d", i/5, min(1, i/1994)) },
			ask: Request{Label: "y", Parts: splitRandom},
			says: []string{"{by: classes, seed: 1, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1}",
				"at random, class by class (the rarest has 6 rows), as asked for"}}, // rows 1994 to 1999
		// 900 rows, fewer than fewRows (1,000).
		"few rows, at random": {header: "a,y", rows: 900,
			row:  func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) },
			ask:  Request{Label: "y", Parts: splitRandom},
			says: []string{"{by: random, seed: 1, train: 0.6, valid: 0.4}", "at random, as asked for"}},
		// The largest machine, and maxTasks; 256 cores in fours would be 64 tasks.
		"many cores": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) },
			ask: Request{Label: "y", Cores: 256}, says: []string{"n2-highmem-128", "tasks_per_vm: 20"}},
		// c25 is not among the 20 values (maxClasses) that a message would list, and is found nevertheless.
		"a late positive": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,c%d", i, i%30) },
			ask: Request{Label: "y", Positive: "c25"}, says: []string{`positive: "c25"`}},
		"no header": {header: "1,0", row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) },
			ask: Request{Label: "c1", NoHeader: true}, says: []string{"csv: {header: false}"}},
		"few rows": {header: "a,y", rows: 100, row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) },
			ask:  Request{Label: "y"},
			says: []string{"{by: classes, seed: 1, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1}"}},
		"ids first": {header: "site,y", row: func(i int) string { return fmt.Sprintf("s%d,%d", i%500, i%2) },
			ask: Request{Label: "y"}, says: []string{"fixed:\n    - " + ofIDs}},
		"numbers first": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) },
			ask: Request{Label: "y"}, says: []string{"fixed:\n    - " + ofFewNumbers}},
		"one trial": {header: "a,y", row: func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) },
			ask: Request{Label: "y", Trials: 1}, says: []string{"search: {fixed: ["}},
		"odd names": {header: "\"a: [b]\",\"y \"\"q\"\"\"",
			row:  func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) },
			ask:  Request{Label: `y "q"`, Drop: []string{"a: [b]"}},
			says: []string{`label: "y \"q\""`, `drop: ["a: [b]"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			rows := tc.rows
			if rows == 0 {
				rows = 2000
			}
			q := tc.ask
			q.Sources = []string{written(t, tc.header, rows, tc.row)}
			q.Limit, q.Cores = time.Minute, cmp.Or(q.Cores, 2)
			if q.Label == "" {
				q.Label = "click"
			}
			d := must.Get(Make(t.Context(), q))(t)
			if _, err := dataset.ParseSpec("dataset.yaml", d.Dataset); err != nil {
				t.Errorf("the dataset's spec cannot be read again: %v\n%s", err, d.Dataset)
			}
			if _, err := sweep.ParseSpec("sweep.yaml", d.Sweep, plan.Vocabulary()); err != nil {
				t.Errorf("the sweep's spec cannot be read again: %v\n%s", err, d.Sweep)
			}
			text := string(d.Dataset) + string(d.Sweep) + fmt.Sprint(d.Found)
			if q.Name == "" && !strings.Contains(text, "name: my-table-2026\n") {
				t.Errorf("want name: my-table-2026, after the file, in\n%s", text)
			}
			for _, s := range tc.not {
				if strings.Contains(text, s) {
					t.Errorf("want no %q in\n%s", s, text)
				}
			}
			for _, s := range tc.says {
				if !strings.Contains(text, s) {
					t.Errorf("want %q in\n%s", s, text)
				}
			}
		})
	}
}

// TestRefused: what cannot be drafted is an error of kind Input or Usage that says what is wrong, or what to do, in the
// words of the case. Each table has 50 rows. So "three positive rows" are rows 47 to 49, and half of the rows are 25.
func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		header string
		row    func(i int) string
		ask    Request
		says   string
	}{
		"no such label": {"clicks,a", func(int) string { return "1,2" }, Request{Label: "click"},
			`--label: `},
		"no value": {"a,y", func(int) string { return "1," }, Request{Label: "y"}, "has no value in any row"},
		"two spellings": {"a,y", func(i int) string { return "1," + []string{"No", "no", "yes"}[i%3] },
			Request{Label: "y"}, `"No" and "no" differ in case alone: write them in one way`},
		"one value": {"a,y", func(int) string { return "1,yes" }, Request{Label: "y"},
			"every row has the same value, yes: there is nothing to predict"},
		"no written as nothing": {"a,y", func(i int) string { return []string{"1,yes", "1,"}[i%2] },
			Request{Label: "y"}, "there is nothing to predict; 25 rows without a value are left out: if that " +
				"means no, write it there"},
		"no written as nothing beside --positive": {"a,y", func(i int) string { return []string{"1,yes", "1,"}[i%2] },
			Request{Label: "y", Positive: "yes"}, "the rarer class has 0 of 25 rows, and at least 4 are needed: one " +
				"each to train, choose, calibrate and judge; 25 rows without a value are left out"},
		"three positive rows": {"a,y", func(i int) string { return fmt.Sprintf("%d,%d", i, i/47) },
			Request{Label: "y"}, "the rarer class has 3 of 50 rows, and at least 4 are needed: one each to train"},
		"no such positive": {"a,y", func(i int) string { return fmt.Sprintf("1,c%d", i%3) },
			Request{Label: "y", Positive: "c9"}, "no row has --positive c9; the column holds c0, c1, c2"},
		"a metric of classes": {"a,y", func(i int) string { return fmt.Sprintf("1,%d", i) },
			Request{Label: "y", Metric: "auc"}, "auc judges two classes"},
		"a metric of two of three": {"a,y", func(i int) string { return fmt.Sprintf("1,c%d", i%3) },
			Request{Label: "y", Metric: "auc"}, "c0, c1, c2, and auc judges two classes"},
		"texts as numbers": {"a,y", func(i int) string { return fmt.Sprintf("1,c%d", i) },
			Request{Label: "y", Objective: "regression"}, "a number is to be predicted, and the column holds"},
		"a text among numbers": {"a,y", func(i int) string {
			return fmt.Sprintf("1,%s", []string{fmt.Sprint(i) + ".5", "unknown"}[i/49])
		}, Request{Label: "y"}, "numbers, and unknown: correct it, or leave such rows out with --missing unknown"},
		"times": {"a,y", func(i int) string { return fmt.Sprintf("1,2026-01-%02d", 1+i%28) }, Request{Label: "y"},
			"--label y: the column holds times: to predict when, write a number"},
		"no such objective": {"a,y", func(i int) string { return fmt.Sprintf("1,%d", i) },
			Request{Label: "y", Objective: "gama"}, "--objective gama: there is no objective"},
		"no such group": {"a,y", func(i int) string { return fmt.Sprintf("1,%d", i%3) },
			Request{Label: "y", Group: "q"}, "--group q: no such column besides the label"},
		"an order of what": {"a,y", func(i int) string { return fmt.Sprintf("1,%d", i%3) },
			Request{Label: "y", Objective: "lambdarank"}, "Name the column whose rows belong together with --group"},
		"a group without an order": {"q,y", func(i int) string { return fmt.Sprintf("1,%d", i%3) },
			Request{Label: "y", Group: "q", Objective: "poisson"}, "to keep rows together without one, use --key"},
		"an order of single rows": {"q,y", func(i int) string { return fmt.Sprintf("%d,%d", i, i%3) },
			Request{Label: "y", Group: "q"}, "no order can be learnt: 0 of its 50 values have rows with different y"},
		"an order of equals, by time": {"q,ts,y", func(i int) string {
			return fmt.Sprintf("%d,%s,%d", i/5, time.Unix(int64(i/5)*86400, 0).UTC().Format(time.DateOnly), i/5%2)
		}, Request{Label: "y", Group: "q", Time: "ts"}, "0 of its 10 values have rows with different y"},
		"an order of few": {"q,y", func(i int) string { return fmt.Sprintf("%d,%d", i/2, i%2) },
			Request{Label: "y", Group: "q"}, "25 of its 25 values have rows with different y, and some must"},
		"half a grade": {"q,y", func(i int) string { return fmt.Sprintf("%d,%v", i/9, float64(i%3)/2) },
			Request{Label: "y", Group: "q"},
			"from 0 to 30, and the column holds 0.5; cut such numbers into a few grades"},
		"grades in words": {"q,y", func(i int) string { return fmt.Sprintf("%d,g%d", i/9, i%3) },
			Request{Label: "y", Group: "q"}, "name the one that comes first with --positive"},
		"no such level": {"a,y", func(i int) string { return fmt.Sprintf("1,%d", i) },
			Request{Label: "y", Objective: "quantile@2"}, "--objective quantile@2: metric quantile@2: give a number"},
		"an objective without a number": {"a,y", func(i int) string { return fmt.Sprintf("1,%d", i) },
			Request{Label: "y", Objective: "poisson@2"}, "--objective poisson@2: use poisson, without @"},
		"no such time": {"a,y", func(i int) string { return fmt.Sprintf("1,%d", i%2) },
			Request{Label: "y", Time: "ts"}, "--time ts: no such column besides the label (the columns are: a)"},
		"no such key": {"a,y", func(i int) string { return fmt.Sprintf("1,%d", i%2) },
			Request{Label: "y", Key: "y"}, "--key y: no such column besides the label"},
		"no such column of a metric": {"bid,y", func(i int) string { return fmt.Sprintf("1,%d", i%2) },
			Request{Label: "y", Metric: "value(label * bdi - prediction)"},
			"--metric: no column bdi (the columns are: bid, y)"},
		"no such column to drop": {"a,y", func(i int) string { return fmt.Sprintf("1,%d", i%2) },
			Request{Label: "y", Drop: []string{"b"}}, "--drop: no column b (the columns are: a, y)"},
		"no header": {"0.5,a,1", func(i int) string { return fmt.Sprintf("%d.5,b,%d", i, i%2) }, Request{Label: "y"},
			"(the columns are: 0.5, 1, a); if the first line is data: --no-header"},
		"time and key": {"a,b,y", func(i int) string { return fmt.Sprintf("1,2,%d", i%2) },
			Request{Label: "y", Time: "a", Key: "b"}, "give --time, --key or --split"},
		"a time is missing": {"ts,y", func(i int) string {
			return fmt.Sprintf("%s,%d", []string{"2026-01-01", ""}[i%2], i%2)
		},
			Request{Label: "y", Time: "ts"}, "--time ts: 25 rows have no time"},
	} {
		t.Run(name, func(t *testing.T) {
			q := tc.ask
			q.Sources, q.Limit, q.Cores = []string{written(t, tc.header, 50, tc.row)}, time.Minute, 2
			_, err := Make(t.Context(), q)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("got %v; want an error that says %q", err, tc.says)
			}
			if k := problem.Of(err); k != problem.Input && k != problem.Usage {
				t.Errorf("the error is of kind %v, want input or usage", k)
			}
		})
	}
}

// TestTooManyClasses: a label of 150 texts is an error of kind Input, as 100 classes are the most.
func TestTooManyClasses(t *testing.T) {
	table := written(t, "a,y", 150, func(i int) string { return fmt.Sprintf("1,c%d", i) })
	_, err := Make(t.Context(), Request{Sources: []string{table}, Label: "y", Limit: time.Minute, Cores: 2})
	const want = "more than 100 different values"
	if err == nil || !strings.Contains(err.Error(), want) || !problem.Is(err, problem.Input) {
		t.Errorf("a label of 150 texts: got error %v, want one of kind Input with %q", err, want)
	}
}

// TestClassesBeginWithRegularisation: with several classes, both configurations that are tried first have a penalty
// lambda_l2, as without one the leaves of a rare class are so large that the loss rises. With few rows the penalty is
// smaller. By rows, the parameters of the first and the second configuration; nil is one that it does not have. Few are
// fewer than 1,000.
func TestClassesBeginWithRegularisation(t *testing.T) {
	for rows, want := range map[int][2]map[string]any{
		3000: {{"lambda_l2": 10., "extra_trees": true}, {"lambda_l2": 1., "extra_trees": nil}},
		600:  {{"lambda_l2": 1., "extra_trees": true}, {"lambda_l2": 1., "extra_trees": nil}},
	} {
		file := written(t, "x,y", rows, func(i int) string {
			return fmt.Sprintf("%d,%s", i*7919%1000, []string{"a", "b", "c"}[i%3])
		})
		d := must.Get(Make(t.Context(), Request{Sources: []string{file}, Label: "y", Limit: time.Minute, Cores: 2}))(t)
		spec := must.Get(d.WithTrials(5))(t)
		for i, params := range want {
			for name, value := range params {
				if got := spec.Search.Fixed[i][name]; got != value {
					t.Errorf("%d rows: configuration %d has %s %v, want %v, in\n%s", rows, i, name, got, value, d.Sweep)
				}
			}
		}
	}
}

// TestParamsOfEveryTrial: parameters in a file become the sweep's params, and are not searched. The objective, the
// metric and early stopping in it are those of the sweep; of several metrics, the first is. If the file has every
// parameter that would be searched, there is one trial. A file without says is an error of kind Input.
func TestParamsOfEveryTrial(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p")
	table := written(t, "a,y", 2000, func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) })
	grades := written(t, "a,y", 2000, func(i int) string { return fmt.Sprintf("%d,%d", i, i%5) })
	for _, c := range []struct {
		suffix, text string
		says, not    []string // texts that sweep.yaml must have, and must not have; says is nil if the file is refused
	}{
		{".yaml", "n_estimators: 50\neta: 0.1\nbagging_fraction: 0.5\nbagging_freq: 1\nearly_stopping: 7\n",
			[]string{"params: {bagging_fraction: 0.5, bagging_freq: 1, learning_rate: 0.1, num_iterations: 50}",
				"early_stopping_rounds: 7", "fixed:\n    - {num_leaves: 15, min", "num_leaves: {log_int"},
			[]string{"learning_rate: {", "learning_rate: 0.05", "1000"}},
		{".conf", "objective = binary\nmetric = auc,auc_mu\nnum_leaves = 9\nnum_threads = 3\ntask = train\n",
			[]string{"params: {num_iterations: 1000, num_leaves: 9}", "metric: auc"}, []string{"num_leaves: {"}},
		{".yaml", "learning_rate: 1\nnum_leaves: 5\nmin_data_in_leaf: 3\nfeature_fraction: 1\nlambda_l2: 0\n" +
			"extra_trees: false\n", []string{"trials: 1\n", "search: {fixed: [{}]}"}, nil},
		{".conf", "objective = multiclass\nmetric = multi_logloss,auc_mu\nauc_mu_weights = 0,1,2,0\nnum_class = 5\n",
			[]string{"objective: multiclass", "metric: multi_logloss", "num_class: 5"}, nil},
		{".yaml", "metric: []\n", []string{"metric: log_loss"}, nil},
		{".yaml", "bagging_fraction: 0.5\n", nil, nil},     // without bagging_freq it would do nothing
		{".yaml", "n_jobs: 4\nnum_leavess: 3\n", nil, nil}, // misspelled
	} {
		must.Do(t, os.WriteFile(file+c.suffix, []byte(c.text), 0o600))
		source := table
		if strings.Contains(c.text, "num_class") { // that is 5, as grades has labels from 0 to 4
			source = grades
		}
		d, err := Make(t.Context(), Request{Sources: []string{source}, Label: "y", ParamsFile: file + c.suffix,
			Limit: time.Minute, Cores: 2})
		if c.says == nil {
			if problem.Of(err) != problem.Input {
				t.Errorf("%s: got %v, expected a refusal of kind input", c.text, err)
			}
			continue
		}
		must.Do(t, err)
		if _, err := sweep.ParseSpec("sweep.yaml", d.Sweep, plan.Vocabulary()); err != nil {
			t.Errorf("the sweep's spec cannot be read again: %v\n%s", err, d.Sweep)
		}
		for _, w := range c.says {
			if !strings.Contains(string(d.Sweep), w) {
				t.Errorf("%q: want %q in the sweep, got\n%s", c.text, w, d.Sweep)
			}
		}
		for _, w := range c.not {
			if strings.Contains(string(d.Sweep), w) {
				t.Errorf("%q: want no %q in the sweep, got\n%s", c.text, w, d.Sweep)
			}
		}
	}
}

// TestLabelsWithMarks: a label may be numbers with marks, as a feature may. If its texts could be read in two ways, the
// error asks for the format: 100,125 may be 100125 or 100.125. Without an error, what was found says that a number is
// predicted.
func TestLabelsWithMarks(t *testing.T) {
	for text, want := range map[string]string{"$%d.50": "a number is predicted", "%d,5": "a number is predicted",
		"1%02d,125": "numbers or numbers with a decimal comma, which no value tells"} {
		ask := Request{Label: "y", Trials: 2, Sources: []string{written(t, "x,y", 400, func(i int) string {
			return fmt.Sprintf("%d,%q", i%50, fmt.Sprintf(text, i%90))
		})}}
		d, err := Make(context.Background(), ask)
		if err == nil {
			err = fmt.Errorf("%v", d.Found)
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected ... %s ...", text, err, want)
		}
	}
}

// TestRowsOfTotals: a class that only one row has is likely a mistake, such as a row of totals. The error says which
// texts to list as missing, and listing them helps. Many such classes are counted.
func TestRowsOfTotals(t *testing.T) {
	ask := Request{Label: "y", Trials: 2, Sources: []string{written(t, "x,y", 301, func(i int) string {
		if i == 300 {
			return "4711,TOTAL"
		}
		return fmt.Sprintf("%d,%d", i, i%2)
	})}}
	_, err := Make(context.Background(), ask)
	if want := "TOTAL is the label of one row"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("300 rows with 0 or 1 and one with TOTAL: got %v, expected ... %s ...", err, want)
	}

	// Forty labels that one row each has, among three that a hundred rows each have.
	many := Request{Label: "y", Trials: 2, Sources: []string{written(t, "x,y", 340, func(i int) string {
		if i >= 300 {
			return fmt.Sprintf("%d,once%d", i, i)
		}
		return fmt.Sprintf("%d,c%d", i, i%3)
	})}}
	_, err = Make(context.Background(), many)
	if want := "40 values are the label of one row each"; err == nil ||
		!strings.Contains(err.Error(), want) || strings.Count(err.Error(), "--missing once") != 40 {
		t.Errorf("got %v, expected ... %s ... and --missing for each of 40", err, want)
	}

	// TOTAL as a missing value.
	ask.Missing = []string{"TOTAL"}
	d, err := Make(context.Background(), ask)
	if err != nil || !strings.Contains(string(d.Sweep), "objective: binary") {
		t.Errorf("with TOTAL as a missing label: got error %v, want a sweep with objective binary", err)
	}
}

// TestNameOf: the name of a dataset is made of the last element of a path, in the letters that a name may have. It has
// at most 40 characters, begins with a letter and ends in no hyphen.
func TestNameOf(t *testing.T) {
	for path, want := range map[string]string{
		"/data/Clicks 2026.csv.gz":        "clicks-2026",
		"/data/Daily/":                    "daily",
		"2026-clicks.csv":                 "clicks",
		"a__b (1).parquet":                "a-b-1",
		"Straße.csv":                      "stra-e",
		"2026.csv":                        "table",
		"day/*.csv":                       "table",
		strings.Repeat("a", 50) + ".csv":  strings.Repeat("a", 40),
		strings.Repeat("a", 39) + "-b.pq": strings.Repeat("a", 39), // without the hyphen at which it is cut
	} {
		if got := nameOf(path); got != want {
			t.Errorf("nameOf(%q) is %q, want %q", path, got, want)
		}
	}
}
