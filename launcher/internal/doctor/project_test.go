package doctor

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestServicesAreTerraforms: what the doctor wants enabled is what Terraform enables, but for what only options of the
// deployment need, of which the environment does not tell.
func TestServicesAreTerraforms(t *testing.T) {
	text, err := os.ReadFile("../../../terraform/services.tf")
	if err != nil {
		t.Fatal(err)
	}
	var wanted, enabled []string
	for _, s := range services {
		wanted = append(wanted, s.name)
	}
	for _, m := range regexp.MustCompile(`"([a-z0-9]+\.googleapis\.com)"`).FindAllSubmatch(text, -1) {
		// Of options.
		if name := string(m[1]); !slices.Contains([]string{"cloudkms.googleapis.com", "secretmanager.googleapis.com",
			"billingbudgets.googleapis.com"}, name) {
			enabled = append(enabled, name)
		}
	}
	slices.Sort(wanted)
	slices.Sort(enabled)
	if !slices.Equal(wanted, enabled) {
		t.Errorf("the doctor looks at %q, terraform enables %q", wanted, enabled)
	}
}

// TestMeasurementsElsewhere: Cloud Monitoring's way in is not missed where nothing goes there.
func TestMeasurementsElsewhere(t *testing.T) {
	for _, endpoint := range []string{"", "http://collector:4318"} {
		f := newFake(t)
		f.enabled = drop(f.enabled, telemetryService)
		d := newDoctor(t, f)
		d.Deployment.OTLPEndpoint = endpoint
		for _, found := range examineSweep(t, d, nil).Findings {
			if found.Check == "service" && found.Verdict != OK {
				t.Errorf("metrics go to %q, and all services in use are enabled: %+v", endpoint, found)
			}
		}
	}
}
