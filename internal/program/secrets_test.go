package program

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/cobra"

	"coppice/internal/cloud"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestNoSecretIsLogged: a secret that a library has put into an error does not appear in the log or in a program's
// error output, in whatever way it gets there, and the rest of the text does. The test sends each text through all the
// ways by which the programs log. Texts that only resemble secrets stay as they are.
func TestNoSecretIsLogged(t *testing.T) {
	const secret = "SECRETsecret0123456789"
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0" + secret + "." + secret
	for name, text := range map[string]string{
		"header":         "Authorization: Bearer " + secret,
		"small header":   "authorization=bearer " + secret,
		"access token":   "token ya29.a0" + secret + " expired",
		"identity token": "verify " + jwt,
		"upload":         "https://storage.googleapis.com/upload/storage/v1/b/x/o?name=y&uploadType=resumable&upload_id=" + secret,
		"signed address": "https://storage.googleapis.com/b/o?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Credential=a%2F" + secret + "&X-Goog-Signature=" + secret,
		"old signature":  "https://storage.googleapis.com/b/o?GoogleAccessId=a&Signature=" + secret + "&Expires=1",
		"refresh":        "post https://oauth2.googleapis.com/token?refresh_token=" + secret + "&grant_type=x",
		"webhook":        "Post \"https://hooks.slack.com/services/T000/B000/" + secret + "\"",
		"workflow":       "https://hooks.slack.com/workflows/T000/" + secret + " is gone",
		"key":            "-----BEGIN PRIVATE KEY-----\n" + secret + "\n-----END PRIVATE KEY-----",
	} {
		var out, errOut bytes.Buffer
		log := Logger(&out, LogOrigin{Program: "x"})
		err := &url.Error{Op: "Put", URL: text, Err: errors.New("connection reset")}
		log.Error("upload", "error", err.Error(), "again", err, "path", "/push")
		log.Warn(text)
		log.With("caller", text).Info("x")
		root := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return err }}
		Execute(t.Context(), World{Out: To(&errOut), Err: To(&errOut)}, root)
		all := out.String() + errOut.String()
		if strings.Contains(all, secret) {
			t.Errorf("%s: got the secret %s in %s, want it removed", name, secret, all)
		}
		for _, kept := range []string{"connection reset", `"path":"/push"`, "(removed)"} {
			if !strings.Contains(all, kept) {
				t.Errorf("%s: got %s, want %q kept in it", name, all, kept)
			}
		}
		must.Equal(t, strings.Count(out.String(), "\n"), 3, "%s: lines that were logged", name)
	}
	for _, plain := range []string{"bearer of bad news", "gs://b/sweeps/night-1/trials/0001/attempts/0/model.txt",
		"sha256:0123456789abcdef0123456789abcdef", "signature differs", "eyJ is a word"} {
		must.Equal(t, Redact(plain), plain, "no secret, redacted")
	}
}

// FuzzRedact: an access token is removed, whatever stands before and after it.
func FuzzRedact(f *testing.F) {
	f.Add("a Bearer ", " b")
	f.Add("x?upload_id=", "&y=1")
	f.Fuzz(func(t *testing.T, before, after string) {
		const token = "ya29.c0SECRET0123456789"
		if out := Redact(before + " " + token + " " + after); strings.Contains(out, "SECRET0123456789") {
			t.Fatalf("Redact gives %q, want it without the token %s", out, token)
		}
	})
}

// TestKeysAreRefused: credentials that hold a private key are refused, unless only emulators are called. Those that
// cannot be read are refused, too. An empty STORAGE_EMULATOR_HOST names no emulator. No error quotes a key.
func TestKeysAreRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const private = "-----BEGIN PRIVATE KEY-----MIIE"
	key := file("key.json", `{"type":"service_account","client_email":"a@b.iam.gserviceaccount.com","private_key":"`+
		private+`"}`)
	for name, tc := range map[string]struct {
		credentials string
		emulator    []string // STORAGE_EMULATOR_HOST; the variable is not set if this is empty
		refused     string   // what the error says; "" if there is none
	}{
		"a key": {credentials: key, refused: "a service account key"},
		"a key under another name": {credentials: file("odd.json", `{"type":"other","private_key":"`+private+`"}`),
			refused: "a service account key"},
		"an impersonation by key": {credentials: file("both.json",
			`{"type":"impersonated_service_account","source_credentials":{"type":"service_account"}}`),
			refused: "a service account key"},
		"an impersonation by login": {credentials: file("login.json",
			`{"type":"impersonated_service_account","source_credentials":`+
				`{"type":"authorized_user","refresh_token":"x"}}`)},
		"workload identity":          {credentials: file("external.json", `{"type":"external_account"}`)},
		"no file":                    {credentials: filepath.Join(dir, "nowhere"), refused: "no such file"},
		"no JSON":                    {credentials: file("text", private), refused: "not valid credentials JSON"},
		"nothing":                    {},
		"a key, and an emulator":     {credentials: key, emulator: []string{"127.0.0.1:1"}},
		"a key, an emulator's blank": {credentials: key, emulator: []string{""}, refused: "a service account key"},
	} {
		env := map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": tc.credentials}
		for _, host := range tc.emulator {
			env["STORAGE_EMULATOR_HOST"] = host
		}
		w := World{Env: envconfig.MapLookuper(env)}
		var target struct{}
		err := w.Environment(t.Context(), &target, "")
		var setup *cloud.SetupError
		switch {
		case tc.refused == "" && err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case tc.refused != "" && (!errors.As(err, &setup) || !strings.Contains(err.Error(), tc.refused) ||
			ExitCode(context.Background(), err) != sweep.ExitSetup):
			t.Errorf("%s: got error %v; want a *cloud.SetupError with %q, and its exit code", name, err, tc.refused)
		case err != nil && strings.Contains(err.Error(), "MIIE"):
			t.Errorf("%s: the error quotes the key: %v", name, err)
		}
	}
}
