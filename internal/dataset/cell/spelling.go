package cell

import (
	"strings"

	"coppice/internal/dataset"
)

// plainText returns the spelling that all texts of one value share: 1001, 1001.0 and " 1001" are one id, and True is
// true. Spaces around a text are dropped, plain numbers get their shortest form, long whole numbers lose a plus sign
// and a fraction of zeros, and booleans get lower case. The result is text or, if number is not nil, number, which is
// in the memory of buf if that suffices. missing says that it is a number that stands for a missing value.
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

// longWhole returns the digits of a whole number of any length, such as 1234567890123456.0, with its minus sign but
// without a plus sign and a fraction of zeros: programs that have read an id as a float64 write it with a fraction. It
// is false for anything else, such as a number with leading zeros, with an exponent or with two signs, and for 0.
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

// isDigits reports whether a text is a whole number up to 15 digits as AppendNumber would write it.
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

// mergeSpellings changes counts, by text, so that all spellings of a value are counted under the most frequent one; on
// a tie, under the first in byte order. Numbers that stand for a missing value are removed.
func mergeSpellings(counts map[string]int64, t *Markers) {
	// Find the texts that are not spelled as plainText does.
	var buf []byte
	others := map[string][]string{} // by the spelling of plainText
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

	// Merge each with the others of its value.
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
