// Package gbt trains gradient-boosted decision trees on a table that is already binned to bytes, and writes them in
// LightGBM's text format.
//
// It is LightGBM's algorithm (Ke et al., NeurIPS 2017): leaf-wise growth, histograms, the smaller child added up and
// the larger one subtracted, many-valued categories split by sorted statistics. Four things are different, because
// fifty trainers are to share one table, and a model is to be the same bytes however and wherever it is trained:
//
//   - The table is borrowed, not owned: Data is slices over the caller's mapping, in row order for histograms and in
//     column order for partitioning. Nothing of it is copied; private memory is about 20 bytes per row.
//   - Gradients and hessians are rounded, once per tree, to 16-bit fixed point and added as integers. Integer sums do
//     not depend on the order of adding, so neither threads nor interruptions can change a model.
//   - Every random choice comes from a generator keyed by (seed, tree, purpose), never from a shared stream.
//   - Every operation on floating-point numbers rounds alike on all processors: float64(x*y) + z keeps a compiler from
//     fusing the two, as Go does on arm64, and nothing is left to a library whose last bit differs between processors
//     (package exact).
//
// DIVERGENCE.md lists where results differ from LightGBM's and why. The package shows three things:
//
// Training. train.go is boosting, result.go what comes of it, grow.go one tree and children.go the two leaves of a
// split, pool.go the goroutines that share the work. params.go is the parameters, param_table.go all of LightGBM's
// with what they are here, parameters.go what has been changed of them or has no effect and conf.go what a
// train.conf says, with lists of columns in columns.go. objective.go, objective_values.go, objective_classes.go and
// rank.go make gradients, quantile.go the leaves that are quantiles, sample.go draws rows and features, split.go and
// split_categorical.go choose a split, split_extra.go draws its threshold (extra_trees) and coarse.go is what
// max_bin leaves of it. checkpoint.go suspends a training between two trees and resumes it (checkpoint_format.go),
// team.go joins workers that share the rows, input.go continues a finished model and memory.go estimates the memory
// for all of it.
//
// Model and prediction. data.go is a binned table, model.go and tree.go are what comes out, model_read.go and
// model_write.go LightGBM's text, and merge.go makes one model of several. predict.go and predict_compile.go score raw
// rows, route.go binned ones; contribution.go takes a score apart by features.
//
// Kernels. histogram.go adds gradients up by bin, with the most frequent ones left out where that pays (frequent.go),
// and partition.go moves rows to their leaves. Files ending in _hot.go hold the loops in which the time goes, and the
// only unsafe code: histogram_hot.go, partition_hot.go, split_hot.go, gradient_hot.go, probability_hot.go,
// predict_hot.go. kernel_amd64.s has what cannot be written in Go, prefetching and AVX-512 vectors, each beside a twin
// in Go that gives the same bits; kernel_amd64_hot.go calls them, and kernel_other_hot.go stands in for them elsewhere.
//
// docs/design.md says why these are one package.
package gbt
