// Package search decides which configurations a sweep tries and which of the trials wins. It is pure: every decision is
// a function of its request, with reasons, so that it can be reproduced.
//
// Propose lists the trials before the first machine starts: the fixed configurations, then the grid, then random draws.
// Next proposes further trials from the results of earlier ones, for searches that learn: see Ask. Pick orders finished
// trials. Constraint and Condition are the expressions that people write about parameters and about results; both are
// compiled by github.com/expr-lang/expr, restricted to arithmetic and comparisons.
package search
