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

// Wrap breaks the lines of a text that are wider than width columns, between words where it can. The lines that follow
// begin below the text of the first one, past its indentation and its label, unless these take more than half of the
// width. A width of 0 breaks nothing.
func Wrap(whole string, width int) string {
	return breakLines(whole, width, func(line string) string {
		begin := label.FindString(line)
		indent := len(begin)
		if indent > width/2 {
			indent = 0
		}
		var parts []string
		for _, word := range words.FindAllString(line[len(begin):], -1) {
			if strings.Contains(word, " ") && text.StringWidth(word) > width-indent { // too wide to be kept together
				parts = append(parts, strings.Fields(word)...)
			} else {
				parts = append(parts, word)
			}
		}
		return begin + fillLines(parts, width, len(begin), strings.Repeat(" ", indent), "", true)
	})
}

// WrapCode breaks lines that are wider than width columns and meant to be copied, so that they mean the same. end is
// what a broken line ends in: a backslash for commands, nothing for YAML. It breaks between arguments or values only;
// one that is wider than a line stays whole, since a break between quotes would be part of it.
func WrapCode(whole string, width int, end string) string {
	return breakLines(whole, width, func(line string) string {
		begin := line[:len(line)-len(strings.TrimLeft(line, " "))]
		return begin + fillLines(codeParts.FindAllString(line, -1), width, len(begin), begin+"    ", end, false)
	})
}

// breakLines replaces every line of a text that is wider than width by what breakLine makes of it; none if width is 0,
// as it is without a terminal.
func breakLines(whole string, width int, breakLine func(string) string) string {
	lines := strings.Split(whole, "\n")
	for i, line := range lines {
		if width > 0 && text.StringWidth(line) > width {
			lines[i] = breakLine(line)
		}
	}
	return strings.Join(lines, "\n")
}

// fillLines sets words with blanks between them into lines of at most width columns. The first line has column columns
// before the words, which are not in the result; every other line begins with indent, and all but the last end in end.
// If cut is true, a word that is wider than a line is cut; else it sticks out.
func fillLines(words []string, width, column int, indent, end string, cut bool) string {
	var out strings.Builder
	for i, word := range words {
		last := end // what has to fit behind the word
		if i == len(words)-1 {
			last = ""
		}
		size := text.StringWidth(word)

		// A blank if the word fits into this line, else a new line; before the first word, neither. A word that no line
		// holds is cut below, where it gets its line.
		fits := column+1+size+len(last) <= width
		tooWide := cut && len(indent)+size+len(last) > width
		switch {
		case i == 0 || !fits && tooWide:
		case !fits:
			out.WriteString(end + "\n" + indent)
			column = len(indent)
		default:
			out.WriteByte(' ')
			column++
		}

		// Cut a word that does not even fit into a line of its own.
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
