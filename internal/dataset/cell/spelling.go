package cell

import (
	"strings"

	"coppice/internal/dataset"
)

// plainText returns the one spelling shared by all texts of the same value: without surrounding spaces, the shortest
// form of a plain number, and booleans in lower case. 1001, 1001.0 and " 1001" are one id, and True is true. The
// spelling is text or, in the memory of buf if it suffices, number; missing says that the number stands for a missing
// value.
func plainText(s string, t *Markers, buf []byte) (text string, number []byte, missing bool) {
	s = Trim(s)
	if len(t.Numbers) == 0 && isDigits(s) {
		return s, nil, false
	}
	if s != "" && !strings.Contains("0123456789+-.tTfF", s[:1]) { // most ids: neither a number nor a boolean
		return s, nil, false
	}
	if x, ok := plainNumber(s); ok {
		return "", dataset.AppendNumber(buf[:0], x), t.HasNumber(x)
	}
	if whole, ok := longWhole(s); ok {
		return whole, nil, false
	}

	if len(s) == 4 || len(s) == 5 {
		for _, word := range [...]string{"true", "false"} {
			if strings.EqualFold(s, word) {
				return word, nil, false
			}
		}
	}
	return s, nil, false
}

// longWhole returns a whole number of any length, such as 1234567890123456.0, without a plus sign and a fraction of
// zeros: programs that have read an id as a float64 write it with a fraction.
func longWhole(s string) (string, bool) {
	digits := strings.TrimLeft(s, "+-")
	if digits == "" || digits[0] < '1' || digits[0] > '9' || len(s)-len(digits) > 1 {
		return "", false
	}

	end := 0
	for end < len(digits) && isDigit(digits[end]) {
		end++
	}
	if rest := digits[end:]; rest != "" && (rest[0] != '.' || strings.Trim(rest[1:], "0") != "") {
		return "", false
	}

	if s[0] == '-' {
		return s[:1+end], true
	}
	return digits[:end], true
}

// isDigits reports whether a text is a whole number as AppendNumber would write it.
func isDigits(s string) bool {
	if s == "" || len(s) > 15 || s[0] == '0' && len(s) > 1 {
		return false
	}
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// mergeSpellings adds up the counts of texts that are one value, under the most frequent spelling; on a tie, the first
// in byte order. Numbers that stand for a missing value are removed.
func mergeSpellings(counts map[string]int64, t *Markers) {
	var buf []byte
	others := map[string][]string{} // by normalised spelling
	for text := range counts {
		s, number, missing := plainText(text, t, buf)
		if number != nil {
			buf = number
			s = string(number)
		}
		switch {
		case missing:
			delete(counts, text)
		case s != text:
			others[s] = append(others[s], text)
		}
	}

	for s, texts := range others {
		if counts[s] > 0 {
			texts = append(texts, s)
		}
		best, rows := texts[0], int64(0)
		for _, text := range texts {
			rows += counts[text]
			if n := counts[text]; n > counts[best] || n == counts[best] && text < best {
				best = text
			}
		}
		for _, text := range texts {
			delete(counts, text)
		}
		counts[best] = rows
	}
}
