package coppice_test

import (
	"go/ast"
	"os"
	"strings"
	"testing"
)

// How many of the lines in bodies are blank at least, and how many functions of more than a dozen lines may be in one piece: those that
// are one value, such as a table or a command.
const (
	leastBlank = 0.05
	longBody   = 12
	mostDense  = 150
)

// TestBodiesAreSetInParagraphs: bodies of more than a dozen lines have a blank line between two thoughts.
func TestBodiesAreSetInParagraphs(t *testing.T) {
	lines, blank, comments := 0, 0, 0
	var dense []string
	for _, f := range parseAll(t) {
		if f.test {
			continue
		}
		data, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}

		text := strings.Split(string(data), "\n")
		ast.Inspect(f.ast, func(n ast.Node) bool {
			d, ok := n.(*ast.FuncDecl)
			if !ok || d.Body == nil {
				return true
			}
			// Offsets count from the file's own base, whatever file set it was read into.
			first := strings.Count(string(data[:d.Body.Lbrace-f.ast.FileStart]), "\n") + 1
			last := strings.Count(string(data[:d.Body.Rbrace-f.ast.FileStart]), "\n")
			before := blank
			for _, line := range text[first:max(last, first)] {
				switch line = strings.TrimSpace(line); {
				case line == "":
					blank++
				case strings.HasPrefix(line, "//"):
					comments++
				}
			}
			lines += max(last-first, 0)
			if last-first > longBody && blank == before {
				dense = append(dense, f.path+": "+d.Name.Name)
			}
			return true
		})
	}

	t.Logf("%d lines in bodies: %.2f %% are blank, %.2f %% comments of their own; %d functions of more than %d lines are in one piece",
		lines, 100*float64(blank)/float64(lines), 100*float64(comments)/float64(lines), len(dense), longBody)
	if float64(blank) < leastBlank*float64(lines) {
		t.Errorf("%d of %d lines in bodies are blank, want %.0f %% of them", blank, lines, 100*leastBlank)
	}
	if len(dense) > mostDense {
		t.Errorf("%d functions of more than %d lines have no blank line, want %d at most:\n%s", len(dense), longBody, mostDense, strings.Join(dense, "\n"))
	}
}
