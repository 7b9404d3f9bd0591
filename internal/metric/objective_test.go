package metric_test

import (
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
)

func TestObjectivesHaveTheirMetrics(t *testing.T) {
	for objective, want := range map[string]metric.Kind{"binary": metric.Binary, "regression": metric.Regression,
		"cross_entropy": metric.Regression, "poisson": metric.Regression, "lambdarank": metric.Ranking,
		"rank_xendcg": metric.Ranking, "multiclass": metric.Classes} {
		k, err := metric.Of(objective)
		if err != nil || k != want {
			t.Errorf("objective %s has labels of the kind %v, %v, expected %v", objective, k, err, want)
		}
		for _, m := range metric.Standard(objective) {
			if err := m.CheckObjective(objective); err != nil {
				t.Errorf("objective %s refuses its standard metric %s: %v", objective, m.Name, err)
			}
		}
	}
	if _, err := metric.Of("hinge"); err == nil {
		t.Error("an unknown objective was accepted")
	}
	auc := must.Get(metric.Lookup("auc"))(t)
	if auc.CheckObjective("lambdarank") == nil {
		t.Error("auc was accepted for an order")
	}
	if auc.CheckObjective("regression") == nil || auc.CheckObjective("x") == nil {
		t.Error("auc was accepted for a regression")
	}
}
