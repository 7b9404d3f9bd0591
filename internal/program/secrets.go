package program

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"

	"coppice/internal/cloud"
)

// secrets matches texts that let their reader act on another's behalf: tokens, and URLs that need no further
// credentials. Google's libraries put upload URLs into their errors.
var secrets = regexp.MustCompile(`` +
	`((?i:bearer)\s+)[A-Za-z0-9._~+/=-]{8,}` + // an Authorization header
	`|()ya29\.[A-Za-z0-9._-]{8,}` + // Google's access tokens
	`|()eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*` + // signed tokens (JWT)
	// in URLs
	`|((?i:upload_id|access_token|id_token|refresh_token|x-goog-signature|signature|x-goog-credential)=)[^&\s"'<>\\]+` +
	`|((?i:hooks\.slack\.com/)[a-z]+/)[A-Za-z0-9/_-]+` + // where anyone may post
	`|()-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*`)

// Redact removes secrets from a text before it is logged.
func Redact(text string) string {
	return secrets.ReplaceAllString(text, "${1}${2}${3}${4}${5}${6}(removed)")
}

// redacting removes secrets from what is written through it. A secret must not be split between two writes; log
// handlers write whole lines.
type redacting struct{ w io.Writer }

// Write writes line without its secrets. It returns the length of line, as an io.Writer has to, although it may have
// written less.
func (r redacting) Write(line []byte) (int, error) {
	if !secrets.Match(line) {
		return r.w.Write(line)
	}
	if _, err := io.WriteString(r.w, Redact(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// maxCredentials bounds a credentials file, which usually has a few thousand bytes.
const maxCredentials = 1 << 20

// refuseKeys returns a *cloud.SetupError if GOOGLE_APPLICATION_CREDENTIALS names a service account key, which Google's
// libraries would find and use. A key works for everyone who has a copy, anywhere, until it is revoked. With an
// emulator, where no credentials are used, nothing is looked at.
func (w *World) refuseKeys() error {
	if w.Env == nil {
		return nil
	}
	if host, _ := w.Env.Lookup("STORAGE_EMULATOR_HOST"); host != "" {
		return nil
	}
	name, _ := w.Env.Lookup("GOOGLE_APPLICATION_CREDENTIALS")
	if name == "" {
		return nil
	}
	key, err := isKey(name)
	if err != nil {
		return &cloud.SetupError{What: "GOOGLE_APPLICATION_CREDENTIALS", Hint: "unset it: " + withoutKeys, Err: err}
	}

	if key {
		return &cloud.SetupError{What: fmt.Sprintf("GOOGLE_APPLICATION_CREDENTIALS is %s, a service account key, "+
			"which Coppice does not accept", name),
			Hint: "unset it and delete the key: " + withoutKeys}
	}
	return nil
}

const withoutKeys = "in the cloud the machine's own account is used; elsewhere log in with `gcloud auth " +
	"application-default login --impersonate-service-account=ACCOUNT` (docs/run.md)"

// isKey reports whether a credentials file is a service account key, or impersonates another account by one. The error
// quotes nothing of the file, which may be secret.
func isKey(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCredentials))
	if err != nil {
		return false, err
	}

	type credentials struct {
		Type       string `json:"type"`
		PrivateKey string `json:"private_key"`
	}
	var c struct {
		credentials
		Source credentials `json:"source_credentials"` // for impersonation
	}
	if json.Unmarshal(text, &c) != nil {
		return false, fmt.Errorf("%s holds no credentials: it is not valid credentials JSON", name)
	}
	const key = "service_account"
	return c.Type == key || c.Source.Type == key || c.PrivateKey != "" || c.Source.PrivateKey != "", nil
}
