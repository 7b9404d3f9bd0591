package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"coppice/internal/nights"
	"coppice/internal/page/plot"
)

// drifts draws how far each column was from the night before, on one scale; those that moved most first.
func (p *datasetPage) drifts() []*plot.Chart {
	most := map[string]float64{}
	for _, n := range p.Nights {
		for name, v := range n.Drift {
			most[name] = max(most[name], v)
		}
	}
	names := slices.SortedFunc(maps.Keys(most),
		func(a, b string) int { return cmp.Or(cmp.Compare(most[b], most[a]), cmp.Compare(a, b)) })
	if len(names) == 0 {
		return nil
	}
	// One scale for all, so that drawings can be compared; below 0.1, noise would fill it.
	high := max(0.1, 1.05*most[names[0]])

	var charts []*plot.Chart
	for i, name := range names[:min(len(names), mostDrifts)] {
		c := plot.Scatter{Chart: plot.Chart{ID: "drift-" + strconv.Itoa(i), Title: name, W: plot.Quarter, H: 130},
			X: plot.Axis{Unit: plot.Days, Whole: true}, Y: plot.Axis{Low: 0, High: high}, Joined: true}
		found := 0
		for j := range p.Nights {
			n := &p.Nights[j]
			v, ok := n.Drift[name]
			if !ok {
				continue
			}
			class := "s0"
			if level := n.gravest(name); level != "" {
				class = map[nights.Level]string{nights.Blocking: "s2x", nights.Warning: "s5", nights.Note: "s0"}[level]
				found++
			}
			c.Points = append(c.Points, plot.Point{Trial: plot.None, X: day(n.At), Y: v, Class: class})
		}
		c.Summary = fmt.Sprintf("At most %s from the previous night.",
			plot.Plain.Format(math.Round(1000*most[name])/1000))
		if found > 0 {
			c.Summary += fmt.Sprintf(" Findings in %s.", counted(found, "night", "nights"))
		}
		key := "d" + strconv.Itoa(i)
		add(p.data, key, name, plot.Plain, p.Newest, func(n Night) any {
			if v, ok := n.Drift[name]; ok {
				return v
			}
			return nil
		})
		p.data.table(c.ID, "Drift of "+name, "at", "version", key)
		charts = append(charts, c.Draw())
	}
	return charts
}

// gravest is the gravest level of what was found of a column; empty where nothing was.
func (n *Night) gravest(column string) nights.Level {
	order := []nights.Level{"", nights.Note, nights.Warning, nights.Blocking}
	worst := 0
	for _, f := range n.Findings {
		if f.Column == column {
			worst = max(worst, slices.Index(order, f.Level))
		}
	}
	return order[worst]
}
