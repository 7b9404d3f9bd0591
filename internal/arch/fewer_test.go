package arch_test

import (
	"errors"
	"go/ast"
	"os/exec"
	"regexp"
	"testing"
)

// maxKeys is the most keys that all YAML files may have together: specs, scripts of faults, tables of machines, prices
// and rights. It only falls.
const maxKeys = 200

// TestFewKeys: the fields with a yaml tag, each of which is a key of some YAML file, are at most maxKeys. Fewer than 50
// would mean that the test does not see them.
func TestFewKeys(t *testing.T) {
	key := regexp.MustCompile(`\byaml:"[a-z]`)
	n := 0
	for _, f := range parseAll(t) {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			if field, ok := node.(*ast.Field); ok && field.Tag != nil && key.MatchString(field.Tag.Value) {
				n++
			}
			return true
		})
	}
	t.Logf("%d keys", n)
	if n > maxKeys || n < 50 {
		t.Errorf("%d keys, expected 50 to %d", n, maxKeys)
	}
}

// goneWords are what was taken out and must not come back, or be left behind: packages, identifiers, verbs, flags,
// keys. Only the files of tellGone may name them.
var goneWords = []*regexp.Regexp{
	regexp.MustCompile(`\b(EnsembleModel|FileMembers|members\.json|ensembleRanks)\b|ensemble: ?\{cost`),
	regexp.MustCompile(`enforce-iam|keep-jobs|AllowAccount|getIamPolicy|\b(full_disk|memory_limit|foreign_messages)\b`),
	regexp.MustCompile(`\b(clock_offset|pause_task|slow_machine|restart_batch|pause_aggregators|damage_object)\b`),
	regexp.MustCompile(`\b(damage_disk|retry_pause|after_messages)\b`),
	regexp.MustCompile(`bench/(class_rates|ranking|forest|ids_staging|search_(peers|stopping|trained)|serve)\.py`),
	regexp.MustCompile(
		`bench-(serve|predict|ids-staging|search-peers|search-trained)\b|regret-stopping|requirements-search`),
	regexp.MustCompile(`prices refresh|cloud/billing|cloudbilling|COPPICE_BILLING_ENDPOINT|\bPriceList\b|ssd_sku`),
	regexp.MustCompile(`\b[fF]orcedSplits?\b|\bforced_splits:`),
	regexp.MustCompile(`\brestPolicy\b|\bdoctor\.NoCredentials\b|\bcloud\.(Policy|Subscription|Bucket)\b`),
	regexp.MustCompile(`launcher ask\b|launcher/internal/ask|\baskCommand\b|SPACE\.yaml`),
	regexp.MustCompile(`\bAtBounds\b|at_bounds|at its (upper|lower) bound`),
	regexp.MustCompile(`search[-_](nights|quality)`),
	regexp.MustCompile(`launcher features\b|\bfeaturesCommand\b|\bNewWorths\b|\bWorths\b|\bworths\b|\b[wW]orthChart\b`),
	regexp.MustCompile("`tpe`|\\b(MethodTPE|fromTPE|newParzen)\\b|removed-methods"),
	regexp.MustCompile(`(?i)backtest`),
	regexp.MustCompile(`launcher (pause|resume|extend)\b`),
	regexp.MustCompile(`\b(pause|resume|extend)Command\b`),
	regexp.MustCompile(`\b(MaxHalts|CreateHalt|HasHalt|HaltedError|ResumedError|LookForHalt|errHalted)\b`),
	regexp.MustCompile(`sweeps/ID/halts/|020-pause`),
	regexp.MustCompile(`\b(sweep\.Extension|plan\.Extend|[Ss]weep that (it|this one) extends)\b|\.Inherits\(\)`),
	regexp.MustCompile(`GRPCInferenceService|binary_data_size|raw_input_contents|binary_tensor_data|tritonclient`),
	regexp.MustCompile(`serve[-_]clients|dataset\.ReadStream|arrow_stream\.go`),
	regexp.MustCompile(
		`serve[^\n]* --shadow|--split canary|ParseSplit|Coppice-Key|(shadow|split)_(rows|shift|mean)|scoreBeside`),
	regexp.MustCompile(`\bMonotoneMethod\b|\bintermediateMethod\b|\bmonotone_constraints_method: *"?intermediate`),
	regexp.MustCompile(`\bPositionBias|\bposition_bias\b|\bnewPositions\b|\bMaxPosition\b|bench/positions\.py`),
	regexp.MustCompile(`(?i)\bout[ -]of[ -]core\b|out_of_core|OutOfCore|\bblockReader\b|savesPasses|` +
		`hugePage|\bgbt\.Disk\b|openUncached`),
	regexp.MustCompile(`fit --position|fit\([^)\n]*position=|"--position"|\bposition: (slot|COLUMN)`),
	regexp.MustCompile("`when:`|, when: [a-z{\"]|parameters-under-a-condition|\\b(ConditionText|CheckConditions|noteConditions|" +
		"canonicalConditions|checkConditional|checkWhen|absentParams)\\b"),
	regexp.MustCompile(
		`registry (tag|note|push|pull)\b|registry(Tag|Note|Push|Pull)Command|show\.Tags\b|registry_remark`),
	regexp.MustCompile(`(predict|reproduce)[^\n]* --batch|(predict|reproduce)-task|COPPICE_(REPRODUCE|PREDICT)|` +
		`\bJobKind\b|DatasetReproduction`),
	regexp.MustCompile(`\bmanCommand\b|cobra/doc|wheel/deb\.py|\.deb\b|make man\b|md2man/v2 v2\.0\.6 `),
	regexp.MustCompile(`console --actions|COPPICE_CONSOLE_TOKEN|Coppice-Token|performAction|newSteady|` +
		`serveExplain|explaintest|data-act\b`),
	regexp.MustCompile(
		`registry compare\b|launcher/internal/compare|registryCompare|\bVersus\b|page-sweep-beside|GET /compare/`),
	regexp.MustCompile(`\btrial: ?\{ ?machines|\btrial\.machines\b|\bTrialMachines\b|\bsweep\.Together\b`),
	regexp.MustCompile(
		"watch[-_]labels|watchLabels|launcher served|internal/served|ServedMessage|OccasionServed|keepLast"),
	regexp.MustCompile(
		`serve[^\n]* --(profiles|tell)\b|--then\b|--at-most\b|object/served|StillPolicy|HighInHours|-found-`),
	regexp.MustCompile(
		`registry (history|verify|alias)\b|launcher ls\b|datasets pull\b|\b(lsCommand|datasetsPullCommand)\b`),
	regexp.MustCompile(`\bregistry\.Live\b|\bParseMoment\b|registry(History|Verify|Alias)Command`),
	regexp.MustCompile(
		"`--(accept|attempts|download|held-out|max-bytes|max-rows|poll|prices|reconcile|regression|top)\\b"),
	regexp.MustCompile(
		`Var\([^"\n]*"(accept|attempts|held-out|max-(bytes|rows)|poll|prices|regression|scratch|timeout|top)", `),
	regexp.MustCompile(
		`--prices FILE|stage[^\n]* --(accept|scratch)\b|leaderboard[^\n]* --top\b|bill[^\n]* --attempts\b`),
	regexp.MustCompile(`launcher plot\b|\bplotCommand\b|\bWriteSVG\b|\bs\.plot\(|coppice\.Drawing\b`),
	regexp.MustCompile(`findings_total|page-day\.png|GET /day|day\.html`),
	regexp.MustCompile(
		`\bmode: ?refit\b|\bgbt\.Refit\b|\bRefitMode\b|\bGrowMode\b|\bRefitDecayRate\b|input-dataset.*--refit`),
	regexp.MustCompile(`(?i)calibrat(ion|ed) by segment|\bcalibrate: ?\{|\b(FitSegments|PredictSegments|SegmentCalibration)\b|` +
		`calibrated_by`),
	regexp.MustCompile(`TestCompletionReadsNames|blob\.Folders|stager\.Names\b|completesFor`),
	regexp.MustCompile(`leaderboard [^\n]*--curves|launcher params\b|extends\.results|paramsCommand|FindParameter|` +
		`boardWithCurves|localemu machines|machines-report|internal/residency|blob\.Folders|` +
		`stager\.Names\b|completesFor`),
	regexp.MustCompile(`\bGateReference\b|\bMaxReferenceRows\b|reference: \{(nights: 7|rows)|\bmetric\.Segment\b|` +
		`calibration: \{(by|segment|reference|normalized)`),
	regexp.MustCompile(`\basha, noise|validate: \{[^}\n]*\bdrop:|\bMachineLoss\b|` +
		`lose_machine: \[|\bsample_rows: \d`),
	regexp.MustCompile(
		`\bplot\.(Tree|Node)\b|\bTreeView\b|first eight trees|\bpage\.Compared\b|[tT]wo versions side by side`),
	regexp.MustCompile(`cancel SWEEP \[?TRIAL|\bcancelTrial\b|\bByHand +bool|by_hand|trials, individually`),
	regexp.MustCompile(`\bSpotAuto\b|\bSpotChoice\b|spot: auto|\bcostWords\b|\bmostDrifts\b`),
	regexp.MustCompile(`objective-(time|cost|trials)|data-choose|\bcalibrationChart\b|` +
		`\bpage\.Memory\b|[mM]emory by machine|plot\.Part\b`),
	regexp.MustCompile(
		`aggregator [^\n]*--metrics|127\.0\.0\.1:9464|coppice_aggregator_messages_total|\bmetricsFlag\b`),
	regexp.MustCompile(
		`\blimits\.(target|patience)\b|\bpatience: \{|\b(Create|Decode|Replay|check|read|has)Enough\b|enough\.json`),
	regexp.MustCompile(`(launcher|coppice) why\b|\bwhyCommand\b|sweepview\.Reasons|\bWhyFinal\b`),
	regexp.MustCompile(`\b(EndsByRule|RuleTarget|RulePatience)\b|COPPICE_CHAOS_LIMITS|ending by rule|ended by rule`),
	regexp.MustCompile(`Open Inference Protocol|/v2/(models/MODEL|health)|readInfer|serveInfer`),
	regexp.MustCompile(`\b(InteractionConstraints|FeatureGroups|PosBaggingFraction|BaggingByQuery|bagsByClass)\b`),
	regexp.MustCompile(
		`continue: ?\{from|\bcheckContinue\b|\bplan\.Continued\b|input-(model|dataset)\b|encodings: ?\{like`),
	regexp.MustCompile(`\b(FollowLike|CheckLike|specLike|followTable|COPPICE_STAGE_LIKE|CreateInput|InputObject)\b`),
	regexp.MustCompile(`\b(MonotoneConstraints|MonotoneList|PathSmooth|leastSmooth|bestLimited|catMinGain)\b`),
	regexp.MustCompile(`\b(FairC|fairSlope|fairLoss|weighRows|atLeastOne)\b|fair@1\b`),
	regexp.MustCompile(`registry copy\b|registryCopyCommand|\bLabelCopied\b|copied_from`),
}

// tellGone are the files that say what is gone.
var tellGone = []string{"CHANGELOG.md", "docs/LAB.md", "internal/arch/fewer_test.go"}

// TestGoneWords: no file that git knows has one of the words in goneWords, except the files of tellGone. The test asks
// git grep, which is a hundred times faster than package regexp. git grep ends with 1 if it finds nothing.
func TestGoneWords(t *testing.T) {
	args := []string{"grep", "-nIP", "--max-count=1"}
	for _, word := range goneWords {
		args = append(args, "-e", word.String())
	}
	args = append(args, "--", ":/")
	for _, path := range tellGone {
		args = append(args, ":(exclude)"+path)
	}
	found, err := exec.Command("git", args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return
	}
	t.Errorf("want no word of goneWords in any file; git grep ended with %v and found:\n%s", err, found)
}
