package gcsemu

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// compileGlob translates a matchGlob pattern to a regular expression: "*" is any characters but "/", "**" any
// characters, "**/" also none, "?" one character but "/", [abc], [a-c] and [!abc] one of those, or of the others,
// {a*,b} one of these patterns. A backslash makes the next character literal. Source:
// https://cloud.google.com/storage/docs/json_api/v1/objects/list#list-objects-and-prefixes-using-glob
func compileGlob(pattern string) (*regexp.Regexp, error) {
	if !utf8.ValidString(pattern) {
		return nil, errors.New("it is not UTF-8")
	}

	p := globParser{rest: pattern, begins: true}
	p.out.WriteString(`(?s)\A`)
	for p.rest != "" {
		if err := p.next(); err != nil {
			return nil, err
		}
	}
	if p.braces > 0 {
		return nil, errors.New("a { without }")
	}
	p.out.WriteString(`\z`)
	return regexp.Compile(p.out.String())
}

// globParser translates a pattern, element by element.
type globParser struct {
	rest   string
	out    strings.Builder
	braces int  // number of open ones
	begins bool // a part of the path begins here

	braceBegins bool // a part began before the latest {
}

// take consumes the text if it is next.
func (p *globParser) take(text string) bool {
	rest, ok := strings.CutPrefix(p.rest, text)
	if ok {
		p.rest = rest
	}
	return ok
}

// next translates one element.
func (p *globParser) next() error {
	begins := p.begins
	p.begins = false
	switch {
	case begins && p.take("**/"):
		p.out.WriteString(`(?:.*/)?`)
		p.begins = true
	case p.take("**"):
		p.out.WriteString(`.*`)
	case p.take("*"):
		p.out.WriteString(`[^/]*`)
	case p.take("?"):
		p.out.WriteString(`[^/]`)
	case p.take("["):
		return p.class()
	case p.take("{"):
		p.braces++
		p.out.WriteString(`(?:`)
		p.begins, p.braceBegins = begins, begins
	case p.braces > 0 && p.take("}"):
		p.braces--
		p.out.WriteByte(')')
	case p.braces > 0 && p.take(","):
		p.out.WriteByte('|')
		p.begins = p.braceBegins
	default:
		return p.literal()
	}
	return nil
}

// literal translates a literal character.
func (p *globParser) literal() error {
	if p.take(`\`) && p.rest == "" {
		return errors.New(`a \ at the end`)
	}
	r, size := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	p.out.WriteString(regexp.QuoteMeta(string(r)))
	p.begins = r == '/'
	return nil
}

// class translates the rest of [...].
func (p *globParser) class() error {
	not := p.take("!") || p.take("^")
	end := strings.IndexByte(p.rest, ']')
	if end < 1 {
		return errors.New("a [ without ], or with nothing in it")
	}

	p.out.WriteByte('[')
	if not {
		p.out.WriteString(`^/`)
	}
	for i, r := range p.rest[:end] {
		if r == '-' && i > 0 && i < end-1 {
			p.out.WriteByte('-')
			continue
		}
		fmt.Fprintf(&p.out, `\x{%x}`, r)
	}
	p.out.WriteByte(']')
	p.rest = p.rest[end+1:]
	return nil
}
