package program

import (
	"regexp"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

var (
	// what stays on one line: a word, a number with its percent sign, a `command` in a sentence, the launcher's name
	// with its verb, in whose place another program has its own
	words = regexp.MustCompile("[^\\s`]*`[^`]+`\\S*|\\S*launcher [a-z]+\\S*|\\S+( %\\S*)?")
	// an argument of a command, a value of YAML
	codeParts = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|\\.|\S)+`)
	// a label, under whose text the next lines begin
	label = regexp.MustCompile(`^ *(\S+ {2,})?`)
)

// Wrap breaks the lines of a text that are wider than a terminal, between their words where it can. 0 breaks nothing.
func Wrap(whole string, width int) string {
	return breakLines(whole, width, func(line string) string {
		begin := label.FindString(line)
		indent := len(begin)
		if indent > width/2 {
			indent = 0
		}
		var parts []string
		for _, word := range words.FindAllString(line[len(begin):], -1) {
			if strings.Contains(word, " ") && text.StringWidth(word) > width-indent {
				parts = append(parts, strings.Fields(word)...)
			} else {
				parts = append(parts, word)
			}
		}
		return begin + fillLines(parts, width, len(begin), strings.Repeat(" ", indent), "", true)
	})
}

// WrapCode breaks what is to be copied, if it is wider than a terminal, so that it is read as it was: a command, whose
// lines end in a backslash, or YAML, whose lines end in nothing. A part that is wider than a line stays whole: between
// quotes a break would be part of it.
func WrapCode(whole string, width int, end string) string {
	return breakLines(whole, width, func(line string) string {
		begin := line[:len(line)-len(strings.TrimLeft(line, " "))]
		return begin + fillLines(codeParts.FindAllString(line, -1), width, len(begin), begin+"    ", end, false)
	})
}

// breakLines breaks the lines that are wider than width; none if that is 0, which is no terminal.
func breakLines(whole string, width int, breakLine func(string) string) string {
	lines := strings.Split(whole, "\n")
	for i, line := range lines {
		if width > 0 && text.StringWidth(line) > width {
			lines[i] = breakLine(line)
		}
	}
	return strings.Join(lines, "\n")
}

// fillLines sets words from a column on; lines end in end, and the next begin with indent. A word wider than a line can
// be cut.
func fillLines(words []string, width, column int, indent, end string, cut bool) string {
	var out strings.Builder
	for i, word := range words {
		last := end
		if i == len(words)-1 {
			last = ""
		}
		size := text.StringWidth(word)
		switch {
		case i == 0 || cut && column+1+size+len(last) > width && size+len(indent)+len(last) > width:
		case column+1+size+len(last) > width:
			out.WriteString(end + "\n" + indent)
			column = len(indent)
		default:
			out.WriteByte(' ')
			column++
		}
		if cut && column+size+len(last) > width {
			if column > 0 {
				out.WriteByte('\n')
			}
			word = text.WrapHard(word, width)
			column = 0
			size = text.StringWidth(word[strings.LastIndexByte(word, '\n')+1:])
		}
		out.WriteString(word)
		column += size
	}
	return out.String()
}
