package sweep_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/must"
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
