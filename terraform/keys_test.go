package terraform

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbidden is what no file of the deployment may hold, and why.
var forbidden = map[string]*regexp.Regexp{
	"a service account's key: workload identity only":              regexp.MustCompile(`google_service_account_key|google_storage_hmac_key|service-accounts keys create`),
	"credentials from a file: Terraform uses the operator's login": regexp.MustCompile(`(?m)^\s*(credentials|access_token)\s*=`),
	"everybody":         regexp.MustCompile(`allUsers|allAuthenticatedUsers`),
	"a check taken off": regexp.MustCompile(`invoker_iam_disabled|INGRESS_TRAFFIC_ALL`),
}

// TestNoKeysAndNobodyIsEverybody reads every file of the deployment, examples included.
func TestNoKeysAndNobodyIsEverybody(t *testing.T) {
	read := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		if ext := filepath.Ext(path); ext != ".tf" && ext != ".yaml" && ext != ".sh" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		for why, pattern := range forbidden {
			if found := pattern.Find(text); found != nil {
				t.Errorf("%s has %q: %s", path, found, why)
			}
		}
		return nil
	})
	if err != nil || read < 20 {
		t.Fatalf("%d files read: %v", read, err)
	}
	for why, example := range map[string]string{
		"a service account's key: workload identity only": `resource "google_service_account_key" "x" {}`,
		"credentials from a file: Terraform uses the operator's login": "provider \"google\" {\n  credentials = " +
			"file(\"key.json\")\n}",
		"everybody":         `member = "allUsers"`,
		"a check taken off": "invoker_iam_disabled = true",
	} {
		if !forbidden[why].MatchString(example) {
			t.Errorf("%s: the rule does not see %q", why, example)
		}
	}
}
