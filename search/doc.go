// Package search decides which configurations a sweep tries and which of the trials wins. It is pure: a request goes in, a
// decision comes out with its reasons, and nothing else is read or remembered, so that every decision can be made again.
//
// Propose lists the trials before the first machine starts: the fixed configurations, then the grid, then random draws.
// Next proposes further trials from what is known of the earlier ones, for searches that learn: see Ask.
// Pick orders the finished ones. Constraint and Condition are the expressions that people write about parameters and
// about results; both are compiled by github.com/expr-lang/expr, of which only arithmetic and comparisons are let in.
package search
