package gbt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// foreignParam is a training parameter of LightGBM 4 that has no counterpart here. Those who come with LightGBM's
// parameter files have them; most say what happens here anyway.
// Source: https://lightgbm.readthedocs.io/en/stable/Parameters.html
type foreignParam struct {
	name    string
	aliases string
	fine    string // values that mean what is done here, separated by blanks; any for all
	why     string // they have no effect, or others are refused
}

const (
	anyValue  = "any"
	off       = "false 0 -1"
	oneSeed   = "all draws follow from seed"
	noCEGB    = "features have no cost: Coppice has no cost-effective boosting"
	noQuanta  = "gradients are exact: Coppice does not quantise them"
	tableKeys = "dataset.yaml says how a table is read"
	noGPU     = "Coppice trains on CPUs only"
	memory    = "launcher plan fits tasks to the machine's memory"
	ofSweep   = "models and scores are written by the sweep"
)

var foreignParams = []foreignParam{
	{
		"tree_learner",
		"tree tree_type tree_learner_type",
		"serial",
		"`task train --workers N` and a sweep's `final: {machines: N}` divide the rows; the bytes " +
			"stay the same",
	},
	{"device_type", "device", "cpu", noGPU},
	{"deterministic", "", anyValue, "training always is"},
	{"force_col_wise", "", anyValue, "the layout of the data is fixed"},
	{"force_row_wise", "", anyValue, "the layout of the data is fixed"},
	{"histogram_pool_size", "hist_pool_size", anyValue, memory},
	{"verbosity", "verbose", anyValue, "what a command says does not depend on it"},
	{"use_missing", "", "true 1", "missing values have a bin of their own"},
	{"zero_as_missing", "", off, "a 0 is a number; list it under missing: in dataset.yaml if it is none"},
	{"feature_pre_filter", "", anyValue, "features are left out by nothing but ignore_column"},
	{"is_enable_sparse", "is_sparse enable_sparse sparse", anyValue, "the layout of the data is fixed"},
	{"enable_bundle", "is_enable_bundle bundle", anyValue, "features are not bundled"},
	{"task", "task_type", "train training", "task train trains; launcher predict predicts"},
	{"data", "train train_data train_data_file data_filename", anyValue, tableKeys},
	{"valid", "test valid_data valid_data_file test_data test_data_file valid_filenames", anyValue, tableKeys},
	{"label_column", "label", anyValue, tableKeys}, {"weight_column", "weight", anyValue, tableKeys},
	{"group_column", "group group_id query_column query query_id", anyValue, tableKeys},
	{"categorical_feature", "cat_feature categorical_column cat_column categorical_features", anyValue, tableKeys},
	{"save_binary", "is_save_binary is_save_binary_file", anyValue, tableKeys},
	{"input_model", "model_input model_in", "", "continue: in sweep.yaml, or --input-model, goes on with a model"},
	{"pre_partition", "is_pre_partition", anyValue, tableKeys},
	{"two_round", "two_round_loading use_two_round_loading", anyValue, tableKeys},
	{"header", "has_header", anyValue, tableKeys},
	{"precise_float_parser", "", anyValue, "numbers are always read exactly"},
	{"bin_construct_sample_cnt", "subsample_for_bin", "200000",
		"sample_rows_for_bins in dataset.yaml says how many rows bins are made from"},
	{"min_data_in_bin", "", "3", "bins are as fine as max_bin allows, whatever their rows"},
	{"max_bin_by_feature", "", "", "max_bin is one for all features"},
	{"lambdarank_position_bias_regularization", "", "0", "no place at which a row was shown is learnt from"},
	{"refit_decay_rate", "", "0.9", "a model is continued by more trees; leaves of those that it has keep their values"},
	{"linear_tree", "linear_trees", off, "leaves are constant: Coppice has no linear trees"},
	{"use_quantized_grad", "", off, noQuanta},
	{"num_grad_quant_bins", "", "4", noQuanta}, {"quant_train_renew_leaf", "", off, noQuanta},
	{"stochastic_rounding", "", anyValue, noQuanta},
	{"forcedsplits_filename", "fs forced_splits_filename forced_splits_file forced_splits", "",
		"every split is the best that the rows have"},
	{"forcedbins_filename", "", "", "bins are made by launcher stage"},
	{"monotone_constraints_method", "monotone_constraining_method mc_method", "basic",
		"directions are kept as by basic; intermediate and advanced gain little and take longer"},
	{"monotone_penalty", "monotone_splits_penalty ms_penalty mc_penalty", "0", "constrained splits are not penalised"},
	{"feature_contri", "feature_contrib fc fp feature_penalty", "", "features have no penalty"},
	{"cegb_tradeoff", "", "1", noCEGB}, {"cegb_penalty_split", "", "0", noCEGB},
	{"cegb_penalty_feature_lazy", "", "", noCEGB}, {"cegb_penalty_feature_coupled", "", "", noCEGB},
	{"top_k", "topk", "20", "workers do not vote on features: their sums are exact"},
	{"num_machines", "num_machine", "1", "`task train --workers N` or a sweep's `final: {machines: N}`"},
	{"bagging_seed", "bagging_fraction_seed", anyValue, oneSeed},
	{"feature_fraction_seed", "", anyValue, oneSeed}, {"extra_seed", "", anyValue, oneSeed},
	{"drop_seed", "", anyValue, oneSeed}, {"data_random_seed", "data_seed", anyValue, oneSeed},
	{"objective_seed", "", anyValue, oneSeed},
	{"first_metric_only", "", anyValue, "the sweep's metric stops"},
	{"linear_lambda", "", "0", "Coppice has no linear trees"},
	{"gpu_platform_id", "", anyValue, noGPU}, {"gpu_device_id", "", anyValue, noGPU},
	{"gpu_use_dp", "", anyValue, noGPU}, {"num_gpu", "", anyValue, noGPU},
	{"snapshot_freq", "save_period", anyValue, "checkpoints are written every minute"},
	{"saved_feature_importance_type", "", anyValue, ofSweep},
	{"output_model", "model_output model_out", anyValue, ofSweep},
	{"is_provide_training_metric", "training_metric is_training_metric train_metric", anyValue, ofSweep},
	{"metric_freq", "output_freq", anyValue, ofSweep},
}

// foreignObjectives are LightGBM's that are not trained here, with their aliases, and why.
var foreignObjectives = map[string]string{
	"cross_entropy_lambda": "it is cross_entropy with another meaning of weights; use cross_entropy",
	"xentlambda":           "it is cross_entropy with another meaning of weights; use cross_entropy",
	"custom":               "a function cannot travel to another machine",
	"none":                 "a function cannot travel to another machine",
	"null":                 "a function cannot travel to another machine",
	"na":                   "a function cannot travel to another machine",
}

// elsewhere are parameters of LightGBM's programs and of whole trainings, with where that is said here. They are no
// training parameters, and refused as such.
var elsewhere = []foreignParam{
	{name: "metric", aliases: "metrics metric_types", why: "metric: of sweep.yaml"},
	{
		name:    "num_threads",
		aliases: "num_thread nthread nthreads n_jobs",
		why:     "machine.threads_per_task: of sweep.yaml; --threads of task train",
	},
	{name: "eval_at", aliases: "ndcg_eval_at ndcg_at map_eval_at map_at", why: "the metric's name: ndcg@10"},
	{name: "multi_error_top_k", why: "multi_error looks at the likeliest class"},
	{name: "auc_mu_weights", why: "there is no metric auc_mu"},
	{name: "parser_config_file", why: tableKeys},
	{name: "config", aliases: "config_file", why: "sweep.yaml and dataset.yaml"},
	{name: "machines", aliases: "workers nodes", why: "machine: of sweep.yaml"},
	{name: "machine_list_filename", aliases: "machine_list_file machine_list mlist", why: "machine: of sweep.yaml"},
	{name: "local_listen_port", aliases: "local_port port", why: "workers meet through the bucket"},
	{name: "time_out", why: "limits: of sweep.yaml"},
	{name: "gpu_device_id_list", why: noGPU},
	{
		name:    "output_result",
		aliases: "predict_result prediction_result predict_name prediction_name pred_name name_pred",
		why:     "launcher predict --out",
	},
	{
		name:    "predict_raw_score",
		aliases: "is_predict_raw_score predict_rawscore raw_score",
		why:     "launcher predict --raw",
	},
	{name: "predict_contrib", aliases: "is_predict_contrib contrib", why: "launcher predict --contributions"},
	{name: "predict_leaf_index", aliases: "is_predict_leaf_index leaf_index", why: "no program prints leaves"},
	{name: "num_iteration_predict", why: "a model has the trees of its best iteration"},
	{name: "start_iteration_predict", why: "a model predicts with all trees"},
	{name: "predict_disable_shape_check", why: "rows always have a model's columns"},
	{
		name: "pred_early_stop",
		why:  "predictions are exact",
	}, {name: "pred_early_stop_freq", why: "predictions are exact"},
	{name: "pred_early_stop_margin", why: "predictions are exact"},
	{name: "convert_model", aliases: "convert_model_file", why: "model.txt is LightGBM's text"},
	{name: "convert_model_language", why: "model.txt is LightGBM's text"},
}

func findForeign(name string) *foreignParam {
	return findAmong(foreignParams, name)
}

func findAmong(all []foreignParam, name string) *foreignParam {
	for i := range all {
		if f := &all[i]; f.name == name || slices.Contains(strings.Fields(f.aliases), name) {
			return f
		}
	}
	return nil
}

// check refuses a value that asks for something else than what is done. An empty text asks for nothing.
func (f *foreignParam) check(value any) error {
	if f.fine == anyValue || value == "" || slices.Contains(strings.Fields(f.fine), fmt.Sprint(value)) {
		return nil
	}
	return fmt.Errorf("LightGBM has it, Coppice does not: %s", f.why)
}

// NoEffect says of each of LightGBM's parameters among params that is accepted and changes nothing why that is so.
func NoEffect(params map[string]any) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if f := findForeign(name); f != nil && f.check(params[name]) == nil {
			out = append(out, fmt.Sprintf("%s has no effect here: %s", name, f.why))
		}
	}
	return out
}
