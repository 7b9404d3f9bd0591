package environment

import "testing"

// TestOnlyTheLocalCloudHasKeysOfItsOwn: an address of keys for checking callers' tokens is accepted only for the local
// cloud: outside Cloud Run, and if it is an http address on this machine. So no setting makes a deployment trust other
// keys than Google's.
func TestOnlyTheLocalCloudHasKeysOfItsOwn(t *testing.T) {
	local := CallersEnv{Audience: "a", Callers: []string{"x@y.z"}, KeysURL: "http://127.0.0.1:9504/certs"}
	if err := local.Check(); err != nil {
		t.Errorf("the local cloud's address: got error %v, want it accepted", err)
	}
	for name, change := range map[string]func(*CallersEnv){
		"on Cloud Run":     func(e *CallersEnv) { e.Service = "coppice-aggregator" },
		"behind Cloud Run": func(e *CallersEnv) { e.Signatures = SignaturesCloudRun },
		"another machine":  func(e *CallersEnv) { e.KeysURL = "http://192.0.2.1/certs" },
		"a name":           func(e *CallersEnv) { e.KeysURL = "http://127.0.0.1.example.com/certs" },
		"a user's name":    func(e *CallersEnv) { e.KeysURL = "http://127.0.0.1@example.com/certs" },
		"another scheme":   func(e *CallersEnv) { e.KeysURL = "https://127.0.0.1/certs" },
		"no address":       func(e *CallersEnv) { e.KeysURL = "://" },
	} {
		e := local
		change(&e)
		if err := e.Check(); err == nil {
			t.Errorf("%s: %+v is accepted, want it refused", name, e)
		}
	}
}
