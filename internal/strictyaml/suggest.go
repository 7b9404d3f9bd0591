package strictyaml

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// Suggest returns a suggestion for the end of a message about an unknown word: " (did you mean \"right\"?)" with the
// most similar of words. If none is similar, it lists them, at most maxKnown. If there are no words, it is empty. A
// word from another tool's language (elsewhere) suggests its counterpart, whatever is similar.
func Suggest(word string, words []string) string {
	if len(words) == 0 {
		return ""
	}
	best := Nearest(word, words)
	for _, own := range slices.Backward(elsewhere[strings.ToLower(word)]) { // the better one comes last, and stays
		if slices.Contains(words, own) {
			best = own
		}
	}
	if best != "" {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}

	// A wide table has thousands of columns; the first ones alphabetically serve as examples.
	known := slices.Sorted(slices.Values(words))
	if len(known) <= maxKnown {
		return fmt.Sprintf(" (known: %s)", strings.Join(known, ", "))
	}
	return fmt.Sprintf(" (known: %s and %d more)", strings.Join(known[:maxKnown], ", "), len(known)-maxKnown)
}

// Nearest returns the word of words that is most similar to word, on a tie the first alphabetically, and "" if none is
// similar enough. Similar means few edits (Levenshtein): at most a third of word's length, rounded up, and at most half
// of it, rounded down, which counts for short words. Capitals do not matter in that.
//
// Lengths are those in characters. An abbreviation counts as two edits at most. Since a word of three letters may have
// one edit only, "lear" finds learning_rate, and "lea" does not: so few letters begin too many words.
func Nearest(word string, words []string) string {
	if len(word) > maxMistyped {
		return ""
	}
	sorted, length := slices.Sorted(slices.Values(words)), utf8.RuneCountInString(word)
	best, distance := "", min(length/2, (length+2)/3)+1 // the fewest edits that are too many
	for _, w := range sorted {
		if len(w) > maxMistyped {
			continue
		}
		n := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(w))
		if begins(w, word) || begins(word, w) {
			n = min(n, 2)
		}
		if n < distance {
			best, distance = w, n
		}
	}

	return best
}

// begins reports whether beginning is likely meant as an abbreviation of word: "lear" of learning_rate, but not "a" of
// ad_format. Three letters are enough, and fewer if they are half of the word.
func begins(word, beginning string) bool {
	n := utf8.RuneCountInString(beginning)
	return strings.HasPrefix(word, beginning) && (n >= 3 || 2*n >= utf8.RuneCountInString(word))
}

// elsewhere has what people who come from other tools type, and the key or flag here, the better one first.
var elsewhere = map[string][]string{"target": {"label"}, "response": {"label"}, "y": {"label"}, "class": {"label"},
	"file": {"source", "in"}, "path": {"source", "in"}, "input": {"source", "in"}, "data": {"source", "in"},
	"output": {"out"}, "folder": {"data", "out"}, "dir": {"data", "out"}, "directory": {"data", "out"},
	"n_trials": {"trials"}, "num_trials": {"trials"}, "max_trials": {"trials"}, "space": {"search"},
	"search_space": {"search"}, "categorical_feature": {"categorical"}, "cat_features": {"categorical"},
	"ignore_column": {"drop"}, "query": {"group"}, "qid": {"group"}, "random_state": {"seed"},
	"time_limit": {"minutes"}, "timeout": {"minutes"}, "eval_metric": {"metric"}}

// maxKnown is how many words Suggest lists.
const maxKnown = 40

// maxMistyped is the longest word, in bytes, for which a similar one is looked for: the time is the product of both
// lengths.
const maxMistyped = 200
