// Package gbt trains gradient-boosted decision trees on a table that is already binned to bytes, and writes them in
// LightGBM's text format.
//
// It is LightGBM's algorithm (Ke et al., NeurIPS 2017): leaf-wise growth, histograms, the smaller child counted and the
// larger one subtracted, many-valued categories split by sorted statistics. Three things are different, because
// fifty trainers are to share one table, and a model is to be the same bytes however it is trained (on processors of one
// architecture: the logarithm that boosting starts from may differ in its last bit on another):
//
//   - The table is borrowed, not owned: Data is slices over somebody's mapping, in row order for counting and in column order
//     for partitioning. Nothing of it is copied; private memory is about 20 bytes per row.
//   - Gradients and hessians are rounded, once per tree, to 16-bit fixed point and added as integers. Integer sums do
//     not depend on the order of adding, so neither threads nor interruptions can change a model.
//   - Every random choice comes from a generator keyed by (seed, tree, purpose), never from a shared stream.
//
// DIVERGENCE.md lists where results differ from LightGBM's and why. The files follow the algorithm: train.go is boosting,
// grow.go one tree, sample.go bagging and feature choice, objective.go gradients, histogram.go counting, split.go and
// split_categorical.go the choice of a split, split_bounded.go what limits it (with the lists of columns in columns.go,
// monotone.go and interaction.go), partition.go moving rows to their leaf,
// route.go scoring binned rows, model.go what comes out, predict.go scoring raw rows. checkpoint.go puts a training down between two trees and takes it up again,
// input.go continues a finished model, and refit.go renews its leaves. Files ending in _hot.go hold
// the loops in which the time goes, and the only unsafe code; kernel_amd64.s those for which Go has no words, prefetching and
// vectors of AVX-512, each beside a twin in Go that gives the same bits.
package gbt
