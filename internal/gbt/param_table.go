package gbt

import (
	"fmt"
	"slices"
	"strings"
)

// paramSpec is one of LightGBM's parameters: what it is called, and what it is here.
// Source: https://lightgbm.readthedocs.io/en/stable/Parameters.html
type paramSpec struct {
	name    string
	aliases string // separated by blanks
	note    string // how it differs here; or why it has no effect or is refused; or which file or flag has it

	// fine is for a parameter that is not trained with. It lists the values that are accepted because they ask for what
	// is done anyway, separated by blanks. It may also be anyValue, or elsewhere if another file or flag has the
	// parameter.
	fine string

	*training // nil if it is not trained with
}

// training describes a parameter that is trained with.
type training struct {
	field     func(*Params) any // returns a pointer to its field, of one of the types that setValue and Map know
	low, high float64           // inclusive bounds of a number
	traits    trait
}

// trainedWith is the part of paramTable that is trained with.
var trainedWith = paramTable[:slices.IndexFunc(paramTable, func(s paramSpec) bool { return s.training == nil })]

// checkFixed returns an error if a parameter that is not trained with has a value that asks for something else than
// what is done. An empty text asks for nothing.
func (s *paramSpec) checkFixed(value any) error {
	switch {
	case s.fine == elsewhere:
		return fmt.Errorf("it is not a training parameter here; in its place: %s", s.note)
	case s.fine == anyValue || value == "" || slices.Contains(strings.Fields(s.fine), fmt.Sprint(value)):
		return nil
	}
	return fmt.Errorf("LightGBM has it, Coppice does not: %s (asked for: %.40v)", s.note, value)
}

// trait is a property that some parameters have.
type trait uint8

const (
	openLow trait = 1 << iota // low itself is invalid

	// addedLater marks parameters that were added after models had been written. A model's text has one only if it is
	// not at its default. So older models can still be trained again to the same bytes, and older checkpoints stay
	// valid.
	addedLater
	leastRows // a least number of rows, or a least hessian: scaled by forCopies and ForSample
	penalty   // is compared with a sum over rows: scaled by ForSample
)

// Names that are used elsewhere as well.
const (
	scalePosWeight  = "scale_pos_weight"
	isUnbalance     = "is_unbalance"
	alpha           = "alpha"
	poissonStep     = "poisson_max_delta_step"
	tweediePower    = "tweedie_variance_power"
	regSqrt         = "reg_sqrt"
	truncationLevel = "lambdarank_truncation_level"
	rankNorm        = "lambdarank_norm"
	labelGain       = "label_gain"
	sigmoidFactor   = "sigmoid"
)

const (
	anyValue    = "any"
	elsewhere   = "elsewhere"
	off         = "false 0 -1"
	oneSeed     = "all draws follow from seed"
	noCEGB      = "features have no cost: Coppice has no cost-effective boosting"
	noQuanta    = "gradients have 16 bits or more, and sums are exact"
	tableKeys   = "dataset.yaml says how a table is read"
	noGPU       = "Coppice trains on CPUs only"
	memory      = "launcher plan fits tasks to the machine's memory"
	noGOSS      = "rows are not drawn by their gradients; use bagging_fraction with bagging_freq: 1"
	noClassBags = "positive and negative rows are drawn alike; use bagging_fraction with bagging_freq: 1, or " +
		"scale_pos_weight"
	noDART  = "no trees are dropped; use a lower learning_rate with early stopping"
	ofSweep = "models and scores are written by the sweep"
)

// paramTable has all parameters of LightGBM 4. First come those that are trained with, in the order of the model file
// (a new one is addedLater). Then come the others, so that LightGBM's parameter files can be read: most of them have
// values that ask for what is done here anyway. A parameter of Coppice's own would belong to the first part. What a
// search varies unless a spec says so is in launcher/internal/draft (space) and internal/search (the portfolio).
var paramTable = []paramSpec{
	{"objective", "objective_type app application loss", "a key of sweep.yaml; see objectives in docs/sweep.md", "",
		&training{func(p *Params) any { return &p.Objective }, 0, 0, 0}},
	{numClass, "num_classes", "", "",
		&training{func(p *Params) any { return &p.NumClass }, 1, mostClasses, addedLater}},
	{"num_iterations",
		"num_iteration n_iter num_tree num_trees num_round num_rounds nrounds num_boost_round n_estimators max_iter",
		"", "", &training{func(p *Params) any { return &p.NumIterations }, 1, 1e6, 0}},
	{"learning_rate", "shrinkage_rate eta", "", "",
		&training{func(p *Params) any { return &p.LearningRate }, 0, 100, openLow}},
	{"num_leaves", "num_leaf max_leaves max_leaf max_leaf_nodes", "", "",
		&training{func(p *Params) any { return &p.NumLeaves }, 2, 131072, 0}},
	{"max_depth", "", "", "", &training{func(p *Params) any { return &p.MaxDepth }, -inf, 1 << 20, 0}},
	{"min_data_in_leaf", "min_data_per_leaf min_data min_child_samples min_samples_leaf", "", "",
		&training{func(p *Params) any { return &p.MinDataInLeaf }, 0, 1 << 31, leastRows}},
	{"min_sum_hessian_in_leaf", "min_sum_hessian_per_leaf min_sum_hessian min_hessian min_child_weight", "", "",
		&training{func(p *Params) any { return &p.MinSumHessian }, 0, 1e300, leastRows}},
	{"lambda_l1", "reg_alpha l1_regularization", "", "",
		&training{func(p *Params) any { return &p.LambdaL1 }, 0, 1e300, penalty}},
	{"lambda_l2", "reg_lambda lambda l2_regularization", "", "",
		&training{func(p *Params) any { return &p.LambdaL2 }, 0, 1e300, penalty}},
	{"min_gain_to_split", "min_split_gain", "", "",
		&training{func(p *Params) any { return &p.MinGainToSplit }, 0, 1e300, penalty}},
	{"max_delta_step", "max_tree_output max_leaf_output", "", "",
		&training{func(p *Params) any { return &p.MaxDeltaStep }, -inf, 1e300, 0}},
	{"feature_fraction", "sub_feature colsample_bytree", "other draws; at least one feature", "",
		&training{func(p *Params) any { return &p.FeatureFraction }, 0, 1, openLow}},
	{"feature_fraction_bynode", "sub_feature_bynode colsample_bynode", "other draws; at least one feature", "",
		&training{func(p *Params) any { return &p.FeatureFractionByNode }, 0, 1, openLow}},
	{"bagging_fraction", "sub_row subsample bagging", "exactly that share of the rows, by other draws", "",
		&training{func(p *Params) any { return &p.BaggingFraction }, 0, 1, openLow}},
	{"bagging_freq", "subsample_freq", "", "", &training{func(p *Params) any { return &p.BaggingFreq }, 0, 1e6, 0}},
	{"max_bin", "max_bins", "255 is as fine as the table was staged; less joins neighbouring bins", "",
		&training{func(p *Params) any { return &p.MaxBin }, 2, 255, 0}},
	{"seed", "random_seed random_state", "all draws follow from it", "",
		&training{func(p *Params) any { return &p.Seed }, 0, 1 << 53, 0}},
	{"early_stopping_round", "early_stopping_rounds early_stopping n_iter_no_change",
		"a key of sweep.yaml, early_stopping_rounds; the sweep's metric stops", "",
		&training{func(p *Params) any { return &p.EarlyStoppingRound }, 0, 1e6, 0}},
	{"early_stopping_min_delta", "", "of the sweep's metric", "",
		&training{func(p *Params) any { return &p.EarlyStoppingDelta }, 0, 1e300, 0}},
	{"boost_from_average", "", "", "", &training{func(p *Params) any { return &p.BoostFromAverage }, 0, 0, 0}},
	{scalePosWeight, "", "refused beside is_unbalance, and for other objectives", "",
		&training{func(p *Params) any { return &p.ScalePosWeight }, 0, 1e9, openLow}},
	{isUnbalance, "unbalance unbalanced_sets", "refused beside scale_pos_weight, and for other objectives", "",
		&training{func(p *Params) any { return &p.IsUnbalance }, 0, 0, 0}},
	{"max_cat_threshold", "", "", "", &training{func(p *Params) any { return &p.MaxCatThreshold }, 1, 255, 0}},
	{"cat_smooth", "", "", "", &training{func(p *Params) any { return &p.CatSmooth }, 0, 1e300, penalty}},
	{"cat_l2", "", "", "", &training{func(p *Params) any { return &p.CatL2 }, 0, 1e300, penalty}},
	{"max_cat_to_onehot", "", "", "", &training{func(p *Params) any { return &p.MaxCatToOnehot }, 1, 256, 0}},
	{"min_data_per_group", "", "", "",
		&training{func(p *Params) any { return &p.MinDataPerGroup }, 1, 1 << 31, leastRows}},
	{"extra_trees", "extra_tree", "draws among all thresholds, where LightGBM's bounds are one short", "",
		&training{func(p *Params) any { return &p.ExtraTrees }, 0, 0, addedLater}},
	{alpha, "", "refused for other objectives; weighted quantiles are not extrapolated", "",
		&training{func(p *Params) any { return &p.Alpha }, 0, 1e300, openLow | addedLater}},
	{poissonStep, "", "refused for other objectives", "",
		&training{func(p *Params) any { return &p.PoissonMaxDeltaStep }, 0, 100, openLow | addedLater}},
	{tweediePower, "", "refused for other objectives", "",
		&training{func(p *Params) any { return &p.TweedieVariancePower }, 1, 1.999, addedLater}},
	{regSqrt, "", "for objective regression only", "",
		&training{func(p *Params) any { return &p.RegSqrt }, 0, 0, addedLater}},
	{truncationLevel, "", "refused for other objectives", "",
		&training{func(p *Params) any { return &p.TruncationLevel }, 1, 1<<31 - 1, addedLater}},
	{rankNorm, "", "refused for other objectives", "",
		&training{func(p *Params) any { return &p.LambdarankNorm }, 0, 0, addedLater}},
	{labelGain, "", "a text, \"0,1,3,7\"; refused for other objectives", "",
		&training{func(p *Params) any { return &p.LabelGain }, 0, 0, addedLater}},
	{sigmoidFactor, "", "for objective lambdarank only; 1 elsewhere", "",
		&training{func(p *Params) any { return &p.Sigmoid }, 0, 1e6, openLow | addedLater}},
	{IgnoreColumn, "ignore_feature blacklist",
		"features of the table by number, name or pattern; they stay in the model's list", "",
		&training{func(p *Params) any { return &p.IgnoreColumn }, 0, 1<<31 - 1, 0}},

	{"fair_c", "", "there is no objective fair; use huber, with alpha", "1", nil},
	{"path_smooth", "", "leaves are not drawn towards their parents; use lambda_l2 and min_data_in_leaf", "0", nil},
	{"monotone_constraints", "mc monotone_constraint monotonic_cst",
		"a number may raise and lower a prediction; ignore_column leaves it out", "[]", nil},
	{"pos_bagging_fraction", "pos_sub_row pos_subsample pos_bagging", noClassBags, "1", nil},
	{"neg_bagging_fraction", "neg_sub_row neg_subsample neg_bagging", noClassBags, "1", nil},
	{"bagging_by_query", "", "rows are drawn, whatever their query; use bagging_fraction with bagging_freq: 1", off,
		nil},
	{"interaction_constraints", "", "all features may meet on a path; ignore_column leaves features out", "[]", nil},
	{"tree_learner", "tree tree_type tree_learner_type",
		"a sweep's `final: {machines: N}` divides the rows; the bytes stay the same",
		"serial feature data", nil},
	{"device_type", "device", noGPU, "cpu", nil},
	{"deterministic", "", "training always is", anyValue, nil},
	{"force_col_wise", "", "the layout of the data is fixed", anyValue, nil},
	{"force_row_wise", "", "the layout of the data is fixed", anyValue, nil},
	{"histogram_pool_size", "hist_pool_size", memory, anyValue, nil},
	{"verbosity", "verbose", "what a command says does not depend on it", anyValue, nil},
	{"use_missing", "", "missing values have a bin of their own", "true 1", nil},
	{"zero_as_missing", "", "a 0 is a number; list it under missing: in dataset.yaml if it is none", off, nil},
	{"feature_pre_filter", "", "features are left out by nothing but ignore_column", anyValue, nil},
	{"is_enable_sparse", "is_sparse enable_sparse sparse", "the layout of the data is fixed", anyValue, nil},
	{"enable_bundle", "is_enable_bundle bundle", "features are not bundled", anyValue, nil},
	{"task", "task_type", "task train trains; launcher predict predicts", "train training", nil},
	{"data", "train train_data train_data_file data_filename", tableKeys, anyValue, nil},
	{"valid", "test valid_data valid_data_file test_data test_data_file valid_filenames", tableKeys, anyValue, nil},
	{"label_column", "label", tableKeys, anyValue, nil},
	{"weight_column", "weight", tableKeys, anyValue, nil},
	{"group_column", "group group_id query_column query query_id", tableKeys, anyValue, nil},
	{"categorical_feature", "cat_feature categorical_column cat_column categorical_features", tableKeys, anyValue, nil},
	{"save_binary", "is_save_binary is_save_binary_file", tableKeys, anyValue, nil},
	{"input_model", "model_input model_in",
		"every training starts from scratch; search.warm_start learns from earlier sweeps", "", nil},
	{"pre_partition", "is_pre_partition", tableKeys, anyValue, nil},
	{"two_round", "two_round_loading use_two_round_loading", tableKeys, anyValue, nil},
	{"header", "has_header", tableKeys, anyValue, nil},
	{"precise_float_parser", "", "numbers are always read exactly", anyValue, nil},
	{"bin_construct_sample_cnt", "subsample_for_bin",
		"sample_rows_for_bins in dataset.yaml says how many rows bins are made from", "200000", nil},
	{"min_data_in_bin", "", "bins are as fine as max_bin allows, whatever their rows", "3", nil},
	{"max_bin_by_feature", "", "max_bin is one for all features", "", nil},
	{"lambdarank_position_bias_regularization", "", "no place at which a row was shown is learnt from", "0", nil},
	{"refit_decay_rate", "", "leaves of a model keep their values", "0.9", nil},
	{"linear_tree", "linear_trees", "leaves are constant: Coppice has no linear trees", off, nil},
	{"use_quantized_grad", "", noQuanta, off, nil},
	{"num_grad_quant_bins", "", noQuanta, "4", nil},
	{"quant_train_renew_leaf", "", noQuanta, off, nil},
	{"stochastic_rounding", "", noQuanta, anyValue, nil},
	{"boosting", "boosting_type boost", "trees are boosted (gbdt), and there is no dart, rf or goss; use a lower " +
		"learning_rate with early stopping", "gbdt gbrt", nil},
	{"data_sample_strategy", "", noGOSS, "bagging", nil},
	{"top_rate", "", noGOSS, "0.2", nil},
	{"other_rate", "", noGOSS, "0.1", nil},
	{"drop_rate", "rate_drop", noDART, "0.1", nil},
	{"max_drop", "", noDART, "50", nil},
	{"skip_drop", "", noDART, "0.5", nil},
	{"uniform_drop", "", noDART, off, nil},
	{"xgboost_dart_mode", "", noDART, off, nil},
	{"forcedsplits_filename", "fs forced_splits_filename forced_splits_file forced_splits",
		"every split is the best that the rows have", "", nil},
	{"forcedbins_filename", "", "bins are made by launcher stage", "", nil},
	{"monotone_constraints_method", "monotone_constraining_method mc_method",
		"there are no directions to keep", "basic", nil},
	{"monotone_penalty", "monotone_splits_penalty ms_penalty mc_penalty", "there are no directions to keep", "0",
		nil},
	{"feature_contri", "feature_contrib fc fp feature_penalty", "features have no penalty", "", nil},
	{"cegb_tradeoff", "", noCEGB, "1", nil},
	{"cegb_penalty_split", "", noCEGB, "0", nil},
	{"cegb_penalty_feature_lazy", "", noCEGB, "", nil},
	{"cegb_penalty_feature_coupled", "", noCEGB, "", nil},
	{"top_k", "topk", "workers do not vote on features: their sums are exact", "20", nil},
	{"num_machines", "num_machine", "a sweep's `final: {machines: N}`", anyValue, nil},
	{"bagging_seed", "bagging_fraction_seed", oneSeed, anyValue, nil},
	{"feature_fraction_seed", "", oneSeed, anyValue, nil},
	{"extra_seed", "", oneSeed, anyValue, nil},
	{"drop_seed", "", oneSeed, anyValue, nil},
	{"data_random_seed", "data_seed", oneSeed, anyValue, nil},
	{"objective_seed", "", oneSeed, anyValue, nil},
	{"first_metric_only", "", "the sweep's metric stops", anyValue, nil},
	{"linear_lambda", "", "Coppice has no linear trees", "0", nil},
	{"gpu_platform_id", "", noGPU, anyValue, nil},
	{"gpu_device_id", "", noGPU, anyValue, nil},
	{"gpu_use_dp", "", noGPU, anyValue, nil},
	{"num_gpu", "", noGPU, anyValue, nil},
	{"snapshot_freq", "save_period", "checkpoints are written every minute", anyValue, nil},
	{"saved_feature_importance_type", "", ofSweep, anyValue, nil},
	{"output_model", "model_output model_out", ofSweep, anyValue, nil},
	{"is_provide_training_metric", "training_metric is_training_metric train_metric", ofSweep, anyValue, nil},
	{"metric_freq", "output_freq", ofSweep, anyValue, nil},
	{"metric", "metrics metric_types", "metric: of sweep.yaml", elsewhere, nil},
	{"num_threads", "num_thread nthread nthreads n_jobs",
		"machine.threads_per_task: of sweep.yaml; --threads of task train", elsewhere, nil},
	{"eval_at", "ndcg_eval_at ndcg_at map_eval_at map_at", "the metric's name: ndcg@10", elsewhere, nil},
	{"multi_error_top_k", "", "multi_error looks at the likeliest class", elsewhere, nil},
	{"auc_mu_weights", "", "there is no metric auc_mu", elsewhere, nil},
	{"parser_config_file", "", tableKeys, elsewhere, nil},
	{"config", "config_file", "sweep.yaml and dataset.yaml", elsewhere, nil},
	{"machines", "workers nodes", "machine: of sweep.yaml", elsewhere, nil},
	{"machine_list_filename", "machine_list_file machine_list mlist", "machine: of sweep.yaml", elsewhere, nil},
	{"local_listen_port", "local_port port", "workers meet through the bucket", elsewhere, nil},
	{"time_out", "", "limits: of sweep.yaml", elsewhere, nil},
	{"gpu_device_id_list", "", noGPU, elsewhere, nil},
	{"output_result", "predict_result prediction_result predict_name prediction_name pred_name name_pred",
		"launcher predict --out", elsewhere, nil},
	{"predict_raw_score", "is_predict_raw_score predict_rawscore raw_score", "launcher predict --raw", elsewhere, nil},
	{"predict_contrib", "is_predict_contrib contrib", "launcher predict --contributions", elsewhere, nil},
	{"predict_leaf_index", "is_predict_leaf_index leaf_index", "no program prints leaves", elsewhere, nil},
	{"num_iteration_predict", "", "a model has the trees of its best iteration", elsewhere, nil},
	{"start_iteration_predict", "", "a model predicts with all trees", elsewhere, nil},
	{"predict_disable_shape_check", "", "rows always have a model's columns", elsewhere, nil},
	{"pred_early_stop", "", "predictions are exact", elsewhere, nil},
	{"pred_early_stop_freq", "", "predictions are exact", elsewhere, nil},
	{"pred_early_stop_margin", "", "predictions are exact", elsewhere, nil},
	{"convert_model", "convert_model_file", "model.txt is LightGBM's text", elsewhere, nil},
	{"convert_model_language", "", "model.txt is LightGBM's text", elsewhere, nil},
}
