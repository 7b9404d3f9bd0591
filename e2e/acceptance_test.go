//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/must"
)

// googleStub stands for the tools that speak to Google, and for those that build. What the sweep needs of them happens
// in the local cloud: the table is uploaded, and the scheduler starts a launcher as a Cloud Run job would.
const googleStub = `#!/bin/sh
set -e
me=${0##*/}
echo "$me $*" >>"$CALLS"
case "$me $*" in
"git describe"*) echo v7 ;;
"gcloud config get account") echo ana@example.com ;;
"gcloud info"*) echo "$HOME" ;;
"gcloud logging read"*) echo projects/my-project/traces/0123 ;;
"gcloud storage buckets describe"*) echo enforced ;;
"gcloud storage cp "*)
  /usr/bin/curl -sSf -o /dev/null --data-binary "@$3" "http://${STORAGE_EMULATOR_HOST#http://}/upload/storage/v1/b/coppice-datasets/o?uploadType=media&name=exports/clicks.parquet" ;;
"gcloud run services describe"*) echo https://aggregator.example ;;
"gcloud scheduler jobs run"*) "$BIN/launcher" sweep build/acceptance/accept-1/sweep.yaml --no-wait --schedule "0 2 * * *" >/dev/null ;;
"curl "*) echo 403 ;;
"docker login"*) cat >/dev/null ;;
"terraform "*" output -raw registry") echo us-central1-docker.pkg.dev/my-project/accept ;;
esac
exit 0
`

// TestAcceptance runs the acceptance script with the real programs against the local cloud: staging as a Batch job,
// a sweep with fallback on Spot, its winner, the same scores from another local cloud, the bill, and a schedule that
// fires three times.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	for _, tree := range []string{"terraform", "examples/clicks"} {
		must.Do(t, os.CopyFS(filepath.Join(l.dir, tree), os.DirFS(tree)))
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(l.dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), mode))
	}
	for _, name := range []string{"gcloud", "terraform", "curl", "make", "go", "docker", "git"} {
		write("stubs/"+name, googleStub, 0o755)
	}
	write("home/application_default_credentials.json", `{"type":"authorized_user"}`, 0o600)
	write("bin/localemu", "#!/bin/sh\nexec "+binaryOf(t, "localemu")+` "$@"`+"\n", 0o755)
	// A seventh of the rows, which is enough for every expectation.
	write("bin/clicks", "#!/bin/sh\nexec "+binaryOf(t, "clicks")+` "$@" --rows 30000`+"\n", 0o755)
	// What doctor finds in a local cloud is tested where it lives; here it is only called. The local cloud has no
	// bucket for tables but that of the datasets.
	write("bin/launcher", "#!/bin/sh\nset -e\n[ \"$1\" != doctor ] || exit 0\n"+
		"[ \"$1 ${3:-}\" != 'stage --batch' ] || sed -i "+
		"'s|gs://my-project-accept-1-source|gs://coppice-datasets/exports|' \"$2\"\n"+
		"exec "+binaryOf(t, "launcher")+` "$@"`+"\n", 0o755)
	cmd := exec.CommandContext(t.Context(), binaryOf(t, "localemu"), "exec", "--data", l.data, "--", "sh",
		"terraform/acceptance.sh")
	cmd.Dir = l.dir
	cmd.Env = []string{"PATH=" + filepath.Join(l.dir, "stubs") + ":/usr/bin:/bin",
		"HOME=" + filepath.Join(l.dir, "home"), "CALLS=" + filepath.Join(l.dir, "calls"),
		"BIN=" + filepath.Join(l.dir, "bin"), "TERRAFORM=terraform", "IMAGE_TOOL=docker", "PROJECT=my-project",
		"NAME=accept-1", "WAIT=1", "YES=1"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("run the acceptance script: %v\n%s", err, &out)
	}
	report, err := os.ReadFile(filepath.Join(l.dir, "build/acceptance/accept-1/report.md"))
	if err != nil || strings.Count(string(report), "| met |") != 22 {
		t.Errorf("the report (%v) does not say 22 times that a criterion is met:\n%s\n%s", err, report, &out)
	}
	for _, part := range []string{"accept@1 (champion)", "the leaves library reproduces", "destroy"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, &out)
		}
	}
}
