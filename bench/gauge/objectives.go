package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os/exec"
	"slices"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// task is something to search: a space, and what its configurations are worth. Higher is better.
type task struct {
	Name   string
	Space  sweep.Search
	Values func([]sweep.Params) ([]float64, error)
	Best   float64 // known before
	Median float64 // of random configurations
}

// surrogates is a running objective.py.
type surrogates struct {
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

func startSurrogates(ctx context.Context, errOut io.Writer, python, data string) (*surrogates, error) {
	s := &surrogates{cmd: exec.CommandContext(ctx, python, "bench/objective.py", data)}
	s.cmd.Stderr = errOut
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	return s, s.cmd.Start()
}

// close ends the program, which reads to the end of its input.
func (s *surrogates) close() error {
	err := s.in.Close()
	if waited := s.cmd.Wait(); err == nil {
		err = waited
	}
	return err
}

func (s *surrogates) ask(question, answer any) error {
	if err := json.NewEncoder(s.in).Encode(question); err != nil {
		return err
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the program that answers configurations has ended: %w", err)
	}
	return json.Unmarshal(line, answer)
}

// tasks are the surrogate's, in one space. anonymous hides the parameters' names from the search.
func (s *surrogates) tasks(anonymous bool) ([]task, error) {
	var names [][2]string
	if err := s.ask(map[string]bool{"tasks": true}, &names); err != nil {
		return nil, err
	}
	space, err := s.space(anonymous)
	if err != nil {
		return nil, err
	}

	var tasks []task
	for _, n := range names {
		of := map[string]any{"task": n[0], "metric": n[1]}
		var known struct{ Best, Median float64 }
		if err := s.ask(map[string]any{"task": n[0], "metric": n[1], "reference": true}, &known); err != nil {
			return nil, err
		}
		tasks = append(tasks, task{Name: n[0] + " " + n[1], Space: space, Best: known.Best, Median: known.Median,
			Values: func(configs []sweep.Params) (values []float64, err error) {
				if anonymous {
					configs = renamed(configs)
				}
				of["configs"] = configs
				return values, s.ask(of, &values)
			}})
	}
	return tasks, nil
}

// hidden stands before names that are to say nothing.
const hidden = "p_"

func renamed(configs []sweep.Params) []sweep.Params {
	var out []sweep.Params
	for _, c := range configs {
		plain := sweep.Params{}
		for name, v := range c {
			plain[name[len(hidden):]] = v
		}
		out = append(out, plain)
	}
	return out
}

func (s *surrogates) space(anonymous bool) (sweep.Search, error) {
	var axes map[string]struct {
		Low, High float64
		Log, Int  bool
		Choice    []any
	}
	if err := s.ask(map[string]bool{"space": true}, &axes); err != nil {
		return sweep.Search{}, err
	}

	out := sweep.Search{Random: map[string]sweep.Distribution{}}
	for name, a := range axes {
		if anonymous {
			name = hidden + name
		}
		ends, whole := []float64{a.Low, a.High}, []int64{int64(a.Low), int64(a.High)}
		switch {
		case a.Choice != nil:
			out.Random[name] = sweep.Distribution{Choice: a.Choice}
		case a.Int && a.Log:
			out.Random[name] = sweep.Distribution{LogInt: whole}
		case a.Int:
			out.Random[name] = sweep.Distribution{Int: whole}
		case a.Log:
			out.Random[name] = sweep.Distribution{LogUniform: ends}
		default:
			out.Random[name] = sweep.Distribution{Uniform: ends}
		}
	}
	return out, nil
}

// synthetic are functions with mixed and constrained spaces, whose best value is 0.
func synthetic() ([]task, error) {
	type dist = sweep.Distribution
	number := func(p sweep.Params, name string) float64 { v, _ := p[name].(float64); return v }
	square := func(x float64) float64 { return x * x }

	tasks := []task{
		{Name: "valley, 2 numbers",
			Space: sweep.Search{Random: map[string]dist{"a": {Uniform: []float64{-2, 2}},
				"b": {Uniform: []float64{-1, 3}}}},
			Values: each(func(p sweep.Params) float64 {
				a, b := number(p, "a"), number(p, "b")
				return math.Log1p(100*square(b-a*a) + square(1-a))
			})},
		{Name: "waves, mixed", Space: sweep.Search{Random: map[string]dist{
			"a": {Uniform: []float64{-5, 5}}, "b": {LogUniform: []float64{1e-4, 1e2}}, "c": {Int: []int64{1, 20}},
			"d": {Choice: []any{"p", "q", "r", "s"}},
			"e": {LogInt: []int64{1, 1000}}, "f": {Step: []float64{0, 1, 0.1}}}},
			Values: each(func(p sweep.Params) float64 {
				a, b, e := number(p, "a")-1.3, math.Log10(number(p, "b"))+1, math.Log10(number(p, "e"))-2
				shift := map[any]float64{"p": 0.4, "q": 0, "r": 0.8, "s": 0.2}[p["d"]]
				return square(a/5) + square(b/3) + square((number(p, "c")-7)/10) + square(e/2) +
					square(number(p, "f")-0.7) + shift +
					0.1*(1-math.Cos(3*a)) + 0.05*(1-math.Cos(4*b))
			})},
		{Name: "two models", Space: sweep.Search{Random: map[string]dist{
			"model": {Choice: []any{"near", "far"}}, "rate": {LogUniform: []float64{1e-4, 1}},
			"width": {Uniform: []float64{0, 1}}, "depth": {Int: []int64{1, 12}},
			"power": {Uniform: []float64{0, 4}}, "bias": {Uniform: []float64{-1, 1}}}},
			Values: each(func(p sweep.Params) float64 {
				rate := square((math.Log10(number(p, "rate")) + 1.5) / 2)
				if p["model"] == "near" {
					return 0.15 + rate + square(number(p, "width")-0.3) + square((number(p, "depth")-9)/8)
				}
				return 2*rate + square((number(p, "power")-2.6)/2) + 2*square(number(p, "bias")-0.45) +
					0.5*math.Abs(number(p, "bias")-0.45)
			})},
		{Name: "ten numbers, three count", Space: sweep.Search{Random: tenNumbers(),
			Constraints: []string{"x0 + x1 < 1.6"}},
			Values: each(func(p sweep.Params) float64 {
				return square(number(p, "x0")-0.9) + square(number(p, "x1")-0.6) + 2*math.Abs(number(p, "x2")-0.25) +
					0.5*number(p, "x0")*square(number(p, "x2")-0.25)
			})},
	}

	for i := range tasks {
		drawn, err := search.Next(search.Ask{Search: tasks[i].Space, Method: sweep.MethodRandom, Number: 1000})
		if err != nil {
			return nil, err
		}
		var configs []sweep.Params
		for _, d := range drawn {
			configs = append(configs, d.Params)
		}
		values, err := tasks[i].Values(configs)
		if err != nil {
			return nil, err
		}
		slices.Sort(values)
		tasks[i].Median = values[len(values)/2]
	}
	return tasks, nil
}

func tenNumbers() map[string]sweep.Distribution {
	out := map[string]sweep.Distribution{}
	for i := range 10 {
		out[fmt.Sprintf("x%d", i)] = sweep.Distribution{Uniform: []float64{0, 1}}
	}
	return out
}

// each makes a loss a value.
func each(loss func(sweep.Params) float64) func([]sweep.Params) ([]float64, error) {
	return func(configs []sweep.Params) ([]float64, error) {
		values := make([]float64, len(configs))
		for i, c := range configs {
			values[i] = -loss(c)
		}
		return values, nil
	}
}
