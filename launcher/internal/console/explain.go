package console

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"coppice/internal/problem"
	"coppice/internal/scorer"
	"coppice/launcher/internal/explain"
)

// mostRow is how many bytes a request with a pasted row has at most.
const mostRow = explain.MaxRow + 1<<10

// serveExplain explains the row in the request's body by a version: launcher/internal/explain.Row as JSON. The row is
// neither kept nor logged.
func (c *Console) serveExplain(w http.ResponseWriter, r *http.Request) {
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		http.Error(w, "the request comes from another page", http.StatusForbidden)
		return
	}
	model, number := r.PathValue("name"), r.PathValue("version")
	if n, err := strconv.Atoi(number); err != nil || strconv.Itoa(n) != number { // an alias would move meanwhile
		http.Error(w, "give the number of a version", http.StatusNotFound)
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, mostRow))
	if err != nil {
		http.Error(w, "the row is too large, or did not arrive", http.StatusRequestEntityTooLarge)
		return
	}
	if err := c.explained.take(r.Context()); err != nil {
		return // the viewer has left
	}
	defer c.explained.give()
	s, err := c.scorerOf(r, model, number)
	if err != nil {
		c.answer(w, r, nil, err)
		return
	}
	row, err := explain.Text(r.Context(), s, string(text))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said, err := json.Marshal(row)
	if err != nil {
		c.answer(w, r, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(said) // the viewer may have left
}

// mostVersion is how many bytes of trees and levels a version has that explains pasted rows: they stay in memory.
const mostVersion = 128 << 20

// scorerOf opens a version, unless it is the one that explained the row before: that one is kept until another is asked
// for. Only who has the turn explained may call it.
func (c *Console) scorerOf(r *http.Request, model, number string) (*scorer.Scorer, error) {
	name := model + "@" + number
	if c.explainer != nil && c.explains == name {
		return c.explainer, nil
	}
	ctx := unhurried(r.Context())
	v, err := c.reg.Get(ctx, model, number)
	if err != nil {
		return nil, err
	}
	trees, _ := v.File(scorer.FileModel)
	levels, _ := v.File(scorer.FileLevels)
	if trees.Bytes+levels.Bytes > mostVersion {
		return nil, problem.New(problem.Input, "%s is too large to explain rows here; `launcher predict "+
			"--contributions` explains those of a file", name)
	}
	s, err := scorer.Open(ctx, c.reg, v)
	if err != nil {
		return nil, err
	}
	if c.explainer != nil {
		_ = c.explainer.Close() // unmapping memory does not fail
	}
	c.explainer, c.explains = s, name
	return s, nil
}
