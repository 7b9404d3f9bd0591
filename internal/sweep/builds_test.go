package sweep_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// TestPlansOfOtherBuilds: a plan that says more than this build knows is read, for what was trained by it, and not
// trained: the error names the build that wrote it. What an object of another kind says beside is left alone.
func TestPlansOfOtherBuilds(t *testing.T) {
	p := plan()
	p.Coppice = "v9.1"
	data := must.Get(json.Marshal(p))(t)
	for old, more := range map[string]string{
		`"format":1`:  `"format":2`,
		`"trials":[{`: `"trials":[{"moon":0,`,
		`"spec":{`:    `"spec":{"moon":true,`,
		`"valid":{`:   `"valid":{"moon":1,`,
	} {
		p, err := sweep.DecodePlan(bytes.Replace(data, []byte(old), []byte(more), 1))
		if err == nil {
			err = p.Trainable()
		} else if more != `"format":2` {
			t.Errorf("a plan with %s cannot be read: %v", more, err)
		}
		const says = "coppice v9.1 wrote it: use programs and images of one version"
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a plan with %s: error %v, expected the version that wrote it", more, err)
		}
	}
	if _, err := sweep.DecodeHeartbeat([]byte(`{"format":1,"moon":1}`)); err != nil {
		t.Errorf("a heartbeat with another key: %v", err)
	}
}

// TestPlansOfEarlierBuilds: testdata/plan-3f537bfe.json is the plan that the build of that commit wrote for a sweep
// with `stop:`. It is read and trained, since its noise of 0 means nothing; with keys that meant something, it is read.
func TestPlansOfEarlierBuilds(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/plan-3f537bfe.json"))(t)
	if !bytes.Contains(data, []byte(`"noise":0,`)) {
		t.Fatal("the plan has no noise")
	}
	for old, more := range map[string]string{
		"":            "",
		`"noise":0,`:  `"noise":0.01,`,
		`"number":1,`: `"number":1,"absent":["drop_rate"],`,
		`"trials":[`:  `"extends":{"sweep":"a-1","results":[{"trial":0}]},"trials":[`,
		`"spot":`:     `"spot_auto":true,"spot":`,
		`"limits":{`:  `"gate":{"metric":"auc","calibration":{"ece":0.02}},"limits":{"target":1,`,
	} {
		text := bytes.Replace(data, []byte(old), []byte(more), 1)
		p, err := sweep.DecodePlan(text)
		if err != nil || len(p.Trials) != 5 || p.Spec.Search.Stop.Eta != 3 || old != "" && bytes.Equal(text, data) {
			t.Errorf("a plan of an earlier build with %s: read as %+v (%v), expected its 5 trials", more, p, err)
			continue
		}
		if err := p.Trainable(); (err == nil) != (old == "") ||
			err != nil && !strings.Contains(err.Error(), "coppice 3f537bfe1634 wrote it: use programs") {
			t.Errorf("a plan of an earlier build with %s: may be trained? %v", more, err)
		}
	}
}

// TestPlansOfContinuedModels: those of earlier builds can be read, and are not trained.
func TestPlansOfContinuedModels(t *testing.T) {
	p := plan()
	p.Input = &sweep.Input{Model: "ctr", Version: 1}
	data := must.Get(json.Marshal(p))(t)
	data = bytes.Replace(data, []byte(`"version":1}`), []byte(`"version":1,"trees":60,"text":{"name":"x"}}`), 1)
	read := must.Get(sweep.DecodePlan(data))(t)
	if err := read.Trainable(); err == nil || !strings.Contains(err.Error(), problem.Gone("continue:")) {
		t.Errorf("a plan that continues a model may be trained: %v", err)
	}
}

// TestPlansOfRankingsBySeveralMachines: those of earlier builds can be read, and are not trained.
func TestPlansOfRankingsBySeveralMachines(t *testing.T) {
	p := plan()
	p.Spec.Objective, p.Spec.Final = "lambdarank", &sweep.Final{Rows: sweep.FinalAll, Machines: 2}
	p.Trials[len(p.Trials)-1].Refit, p.Trials[len(p.Trials)-1].Params = true, nil
	read := must.Get(sweep.DecodePlan(must.Get(json.Marshal(p))(t)))(t)
	if err := read.Trainable(); err == nil || !strings.Contains(err.Error(), "several machines train no ranking") {
		t.Errorf("a plan of a ranking by two machines may be trained: %v", err)
	}
}
