package world

import (
	"net"
	"strings"
	"testing"

	"coppice/terraform"
)

func testGuard(t *testing.T) *guard {
	t.Helper()
	table, err := terraform.Load()
	if err != nil {
		t.Fatal(err)
	}
	return newGuard(table, "p1", map[string]string{"bucket/my-sweeps": terraform.SweepsBucket,
		"topic/projects/p1/topics/s": terraform.ScoresTopic})
}

func address(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

func TestCallersAreTheirAddresses(t *testing.T) {
	g := testGuard(t)
	for i, identity := range []string{terraform.Launcher, terraform.Task, terraform.Aggregator, Owner} {
		g.open(address(i+1), identity)
	}
	for name, tc := range map[string]struct {
		port                       int
		kind, resource, permission string
		denied                     string // named by the refusal
	}{
		"task writes": {2, "bucket", "my-sweeps", "storage.objects.create", ""},
		"task in another bucket": {2, "bucket", "elsewhere", "storage.objects.get",
			"coppice-task@p1.iam.gserviceaccount.com"},
		"launcher reads a table": {1, "bucket", "elsewhere", "storage.objects.get", ""},
		"aggregator creates":     {3, "bucket", "my-sweeps", "storage.objects.create", ""},
		"aggregator overwrites":  {3, "bucket", "my-sweeps", "storage.objects.delete", "coppice-aggregator@"},
		"aggregator empties a checkpoint": {3, "object", "my-sweeps/sweeps/x/trials/0000/checkpoints/0/1",
			"storage.objects.delete", ""},
		"aggregator overwrites a result": {3, "object", "my-sweeps/sweeps/x/trials/0000/result.json",
			"storage.objects.delete", "coppice-aggregator@"},
		"aggregator, not a folder of that name": {3, "object", "my-sweeps/checkpoints", "storage.objects.delete",
			"coppice-aggregator@"},
		"launcher empties no checkpoint": {1, "object", "my-sweeps/sweeps/x/trials/0000/checkpoints/0/1",
			"storage.objects.delete", "coppice-launcher@"},
		"task publishes":           {2, "topic", "projects/p1/topics/s", "pubsub.topics.publish", ""},
		"task publishes elsewhere": {2, "topic", "projects/p1/topics/x", "pubsub.topics.publish", "coppice-task@"},
		"launcher acts as task": {1, "account", "coppice-task@p1.iam.gserviceaccount.com",
			"iam.serviceAccounts.actAs", ""},
		"launcher acts as another": {1, "account", "coppice-aggregator@p1.iam.gserviceaccount.com",
			"iam.serviceAccounts.actAs", "coppice-launcher@"},
		"launcher acts as default": {1, "account", "", "iam.serviceAccounts.actAs", "coppice-launcher@"},
		"launcher in other project": {1, "account", "coppice-task@p2.iam.gserviceaccount.com",
			"iam.serviceAccounts.actAs", "coppice-launcher@"},
		"owner":                       {4, "bucket", "elsewhere", "storage.buckets.delete", ""},
		"nobody":                      {9, "bucket", "my-sweeps", "storage.objects.get", "Anonymous caller"},
		"a permission of the project": {1, "project", "", "batch.jobs.create", ""},
	} {
		err := g.Allow(address(tc.port), tc.kind, tc.resource, tc.permission)
		if tc.denied == "" && err != nil || tc.denied != "" &&
			(err == nil || !strings.HasPrefix(err.Error(), tc.denied) ||
				!strings.Contains(err.Error(), "Permission '"+tc.permission+"' denied")) {
			t.Errorf("%s: got %v, expected %q to be denied, or nil where that is empty", name, err, tc.denied)
		}
	}
	if err := g.Allow(nil, "project", "", "batch.jobs.get"); err == nil {
		t.Error("a call without an address is allowed")
	}
	if g.at(address(2)) != terraform.Task || g.at(address(8)) != "" {
		t.Error("an address is of another identity than the one that it was opened for")
	}
}

func TestAccounts(t *testing.T) {
	g := testGuard(t)
	for email, want := range map[string]string{
		g.email(terraform.Stager): terraform.Stager, "coppice-nobody@p1.iam.gserviceaccount.com": "",
		"stager@p1.iam.gserviceaccount.com":         "",
		"coppice-stager@p2.iam.gserviceaccount.com": "", "": "", "coppice-operators@p1.iam.gserviceaccount.com": "",
	} {
		if got := g.identity(email); got != want {
			t.Errorf("%s is %q, want %q", email, got, want)
		}
	}
	if err := g.AllowAccount(g.email(terraform.Task), "project", "", "batch.states.report"); err != nil {
		t.Error(err)
	}
	if err := g.AllowAccount("", "project", "", "batch.states.report"); err == nil {
		t.Error("the default account reports")
	}
}
