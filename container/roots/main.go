// Command roots prints the root certificates that go into the images, as PEM. They come from a pinned module (Mozilla's
// store as Go's security team packs it), not from the machine that builds, so that the same commit makes the same image
// anywhere. Roots that Mozilla trusts only up to some date are left out: a PEM file cannot say so.
package main

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	if err := printRoots(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "roots:", err)
		os.Exit(1)
	}
}

// printRoots writes the roots to w as PEM, one certificate after the other. Those with a constraint are left out.
func printRoots(w io.Writer) error {
	out := bufio.NewWriter(w)
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	return out.Flush()
}
