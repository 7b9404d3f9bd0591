package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"coppice/internal/must"
)

// TestRoots: printRoots prints the same bytes each time. It prints the certificates of all roots that the module gives
// without a constraint and no other, which are at least 50. All are authorities, and among them is the one that signs
// Google's services.
func TestRoots(t *testing.T) {
	var out, again bytes.Buffer
	must.Do(t, printRoots(&out))
	if err := printRoots(&again); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Errorf("a second time: got other bytes or the error %v, want the same bytes", err)
	}
	all, constrained := 0, 0
	for r := range bundle.Roots() {
		all++
		if r.Constraint != nil {
			constrained++
		}
	}
	n, google := 0, false
	for rest := out.Bytes(); ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c := must.Get(x509.ParseCertificate(block.Bytes))(t)
		if !c.IsCA {
			t.Errorf("%s is no authority, want authorities only", c.Subject)
		}
		google = google || strings.Contains(c.Subject.String(), "GTS Root R1") // it signs *.googleapis.com
	}
	if n != all-constrained || n < 50 || !google {
		t.Errorf("got %d certificates, Google's among them: %t; want %d, at least 50, with Google's", n, google,
			all-constrained)
	}
}
