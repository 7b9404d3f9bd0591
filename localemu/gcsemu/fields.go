//go:build unix

package gcsemu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// selection is a parsed "fields" parameter: each name with the selection below it, nil for all of it. "*" is every
// name. Source: https://cloud.google.com/storage/docs/json_api#partial-response
type selection map[string]selection

// parseFields reads a selector such as items(name,metadata/k),nextPageToken.
func parseFields(text string) (selection, error) {
	p := fieldParser{text: text}
	s, err := p.list()
	if err == nil && p.at < len(text) {
		err = p.unexpected()
	}
	return s, err
}

type fieldParser struct {
	text string
	at   int
	deep int
}

// deepestFields bounds the nesting of selectors.
const deepestFields = 20

func (p *fieldParser) unexpected() error {
	return fmt.Errorf("invalid field selection %.80q at character %d", p.text, p.at+1)
}

// take consumes the character if it is next.
func (p *fieldParser) take(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

// list is one or more comma-separated fields.
func (p *fieldParser) list() (selection, error) {
	s := selection{}
	for {
		if err := p.field(s); err != nil {
			return nil, err
		}
		if !p.take(',') {
			return s, nil
		}
	}
}

// field parses a name, NAME/FIELD or NAME(LIST), and adds it to s.
func (p *fieldParser) field(s selection) error {
	if p.deep++; p.deep > deepestFields {
		return p.unexpected()
	}
	defer func() { p.deep-- }()

	end := len(p.text)
	if i := strings.IndexAny(p.text[p.at:], ",/()"); i >= 0 {
		end = p.at + i
	}
	name := strings.TrimSpace(p.text[p.at:end])
	if name == "" {
		return p.unexpected()
	}
	p.at = end

	below := selection{}
	var err error
	switch {
	case p.take('/'):
		err = p.field(below)
	case p.take('('):
		if below, err = p.list(); err == nil && !p.take(')') {
			err = p.unexpected()
		}
	}
	if err == nil {
		s.add(name, below)
	}
	return err
}

// add merges two selections of one name: all of it includes any part.
func (s selection) add(name string, below selection) {
	had, known := s[name]
	switch {
	case !known:
		s[name] = below
	case len(had) == 0 || len(below) == 0:
		s[name] = selection{}
	default:
		for part, of := range below {
			had.add(part, of)
		}
	}
}

// of returns the selected part of a decoded JSON value; keep is false where nothing is selected.
func (s selection) of(v any) (selected any, keep bool) {
	if len(s) == 0 {
		return v, true
	}

	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			below, named := s[name]
			if !named {
				below, named = s["*"]
			}
			if !named {
				continue
			}
			if part, keep := below.of(value); keep {
				out[name] = part
			}
		}
		return out, true

	case []any:
		out := []any{}
		for _, value := range v {
			if part, keep := s.of(value); keep {
				out = append(out, part)
			}
		}
		return out, true
	}
	return nil, false // a plain value has no fields
}

// finished returns an answer as the client gets it: with what fake-gcs-server leaves out, and only the fields that were
// asked for.
func (s *Server) finished(a *response, fields string) *response {
	if a.status >= http.StatusMultipleChoices || a.body.Len() == 0 {
		return a
	}
	wanted := selection{}
	if fields != "" {
		parsed, err := parseFields(fields)
		if err != nil {
			return answer(http.StatusBadRequest, err.Error())
		}
		wanted = parsed
	}

	decoder := json.NewDecoder(bytes.NewReader(a.body.Bytes()))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return a // not JSON: a health check, say
	}
	s.tell(v)
	selected, _ := wanted.of(v)
	body, err := json.Marshal(selected)
	if err != nil {
		return a
	}

	out := &response{status: a.status, header: a.header.Clone()}
	if out.header.Get("Content-Length") != "" {
		out.header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	out.body.Write(body)
	return out
}
