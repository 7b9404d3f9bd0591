package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/cloudbilling/v1"

	"coppice/internal/cloud"
	"coppice/internal/machines"
)

// sku is a SKU as the service writes it: numbers in units as text, nanos as a number.
func sku(description, usage, unit string, nanos int64, regions ...string) map[string]any {
	id := fmt.Sprintf("%04X-%04X-%04X", len(description), nanos%65536, len(regions))
	return map[string]any{
		"name": computeEngine + "/skus/" + id, "skuId": id, "description": description,
		"category": map[string]any{"serviceDisplayName": "Compute Engine", "resourceFamily": "Compute",
			"resourceGroup": "CPU", "usageType": usage},
		"serviceRegions": regions,
		"pricingInfo": []any{map[string]any{
			"summary": "",
			"pricingExpression": map[string]any{
				"usageUnit": unit, "usageUnitDescription": "hour", "baseUnit": "s", "baseUnitDescription": "second",
				"baseUnitConversionFactor": 3600, "displayQuantity": 1,
				"tieredRates": []any{map[string]any{"startUsageAmount": 0,
					"unitPrice": map[string]any{"currencyCode": "USD", "units": "0", "nanos": nanos}}},
			},
			"currencyConversionRate": 1, "effectiveTime": "2026-11-20T08:33:17.061Z",
		}},
		"serviceProviderName": "Google", "geoTaxonomy": map[string]any{"type": "MULTI_REGIONAL", "regions": regions},
	}
}

// catalogue is two regions' N2 and C4D, and what looks like them.
func catalogue() []map[string]any {
	us := []string{"us-central1", "us-east1"}
	tiered := sku("SSD backed Local Storage", "OnDemand", "GiBy.mo", 80_000_000, us...)
	rates := []any{
		map[string]any{"startUsageAmount": 0, "unitPrice": map[string]any{"currencyCode": "USD", "units": "0",
			"nanos": 0}},
		map[string]any{"startUsageAmount": 1, "unitPrice": map[string]any{"currencyCode": "USD", "units": "0",
			"nanos": 80_000_000}},
	}
	expression(tiered)["tieredRates"] = rates
	old := sku("N2 Instance Core running in Americas", "OnDemand", "h", 31_611_000, us...)
	infos := old["pricingInfo"].([]any)
	before := sku("", "", "h", 99_000_000)["pricingInfo"].([]any)[0].(map[string]any)
	before["effectiveTime"] = "2025-01-01T00:00:00Z"
	old["pricingInfo"] = append(infos, before)
	return []map[string]any{
		sku("Network Vpn Internet Egress from Americas to Africa", "OnDemand", "GiBy", 120_000_000, us...),
		old,
		sku("N2 Instance Ram running in Americas", "OnDemand", "GiBy.h", 4_237_000, us...),
		sku("Spot Preemptible N2 Instance Core running in Americas", "Preemptible", "h", 18_140_000, us...),
		sku("Spot Preemptible N2 Instance Ram running in Americas", "Preemptible", "GiBy.h", 2_432_000, us...),
		sku("N2 Custom Instance Core running in Americas", "OnDemand", "h", 33_174_000, us...),
		sku("N2 Instance Core running in Americas", "Commit1Yr", "h", 1_000_000, us...),
		sku("Commitment v1: N2 Cpu in Americas for 1 Year", "Commit1Yr", "h", 19_915_000, us...),
		sku("N2 Sole Tenancy Instance Core running in Americas", "OnDemand", "h", 99_000_000, us...),
		sku("N2 Instance Core running in Belgium", "OnDemand", "h", 34_773_000, "europe-west1"), // and no memory
		tiered,
		sku("SSD backed Local Storage attached to Spot Preemptible VMs", "Preemptible", "GiBy.mo", 48_000_000, us...),
		sku("SSD backed Local Storage attached to DWS Defined Duration VMs", "OnDemand", "GiBy.mo", 990_000_000, us...),
		sku("C4D Instance Core running in Iowa", "OnDemand", "h", 32_703_500, "us-central1"),
		sku("C4D Instance Ram running in Iowa", "OnDemand", "GiBy.h", 3_753_350, "us-central1"),
		sku("C4D Instance Local SSD running in Iowa", "OnDemand", "GiBy.h", 219_178, "us-central1"),
	}
}

func expression(s map[string]any) map[string]any {
	return s["pricingInfo"].([]any)[0].(map[string]any)["pricingExpression"].(map[string]any)
}

// serve answers pages of so many SKUs, and counts them.
func serve(t *testing.T, all []map[string]any, perPage int, spoil func(page int, w http.ResponseWriter) bool) (*Client,
	*int) {
	t.Helper()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/v1/"+computeEngine+"/skus" || r.URL.Query().Get("currencyCode") != "USD" ||
			r.URL.Query().Get("pageSize") != "5000" {
			t.Errorf("asked for %s", r.URL)
		}
		from := 0
		if token := r.URL.Query().Get("pageToken"); token != "" {
			if _, err := fmt.Sscanf(token, "from-%d", &from); err != nil {
				t.Errorf("a page token that was never given: %s", token)
			}
		}
		if spoil != nil && spoil(asked, w) {
			return
		}
		to := min(from+perPage, len(all))
		page := map[string]any{"skus": all[from:to]}
		if to < len(all) {
			page["nextPageToken"] = fmt.Sprintf("from-%d", to)
		}
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		if err := json.NewEncoder(w).Encode(page); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	c, err := New(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.pause = time.Millisecond
	return c, &asked
}

func near(a, b machines.Rate) bool {
	return math.Abs(a.VCPU-b.VCPU) < 1e-12 && math.Abs(a.GiB-b.GiB) < 1e-12 && math.Abs(a.SSD-b.SSD) < 1e-12
}

func TestPrices(t *testing.T) {
	c, asked := serve(t, catalogue(), 5, nil)
	p, err := c.Prices(t.Context(), nil, "2026-11-21")
	if err != nil {
		t.Fatal(err)
	}
	if *asked != 4 {
		t.Errorf("%d pages were read, want 4", *asked)
	}
	demand := machines.Rate{VCPU: 0.031611, GiB: 0.004237, SSD: 0.08}
	spot := machines.Rate{VCPU: 0.01814, GiB: 0.002432, SSD: 0.048}
	var got []string
	for _, e := range p.Prices {
		got = append(got, e.Family+" "+e.Region)
		switch {
		case e.Family == "n2" && (!near(*e.OnDemand, demand) || !near(*e.Spot, spot)):
			t.Errorf("n2: got on demand %+v, Spot %+v; want %+v and %+v", *e.OnDemand, *e.Spot, demand, spot)
		case e.Family == "c4d" &&
			(e.Spot != nil || !near(*e.OnDemand, machines.Rate{VCPU: 0.0327035, GiB: 0.00375335, SSD: 0.000219178 * 730})):
			t.Errorf("c4d: got on demand %+v, Spot %+v; want the price list's and none", e.OnDemand, e.Spot)
		}
	}
	if want := []string{"c4d us-central1", "n2 us-central1", "n2 us-east1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q: Belgium has no price of memory", got, want)
	}
	// What is found can be written and read again, and goes before what came with the program.
	embedded := machines.Embedded()
	if err := p.Over(embedded).WriteFile(t.TempDir() + "/prices.json"); err != nil {
		t.Error(err)
	}
	one, err := c.Prices(t.Context(), []string{"us-east1"}, "2026-11-21")
	if err != nil || len(one.Prices) != 1 || one.Prices[0].Region != "us-east1" {
		t.Errorf("prices of one region: got %+v (error %v); want the one of us-east1", one, err)
	}
}

func TestAPassingFailureIsRepeated(t *testing.T) {
	c, asked := serve(t, catalogue(), 100, func(page int, w http.ResponseWriter) bool {
		if page < 3 {
			w.WriteHeader(map[int]int{1: 503, 2: 429}[page])
		}
		return page < 3
	})
	if _, err := c.Prices(t.Context(), nil, "2026-11-21"); err != nil || *asked != 3 {
		t.Errorf("%d requests, %v", *asked, err)
	}
}

func TestHalfACatalogueIsNone(t *testing.T) {
	var setup *cloud.SetupError
	var forbidden *cloud.PermissionError
	for name, tc := range map[string]struct {
		status int
		body   string
		as     any
		says   string
	}{
		"forbidden": {403, `{"error": {"code": 403, "message": "Cloud Billing API has not been used in project 1 ` +
			`before or it is disabled.", "status": "PERMISSION_DENIED"}}`, &forbidden, "enable the API"},
		"unknown":  {401, `{"error": {"code": 401, "message": "no"}}`, &setup, "not accepted"},
		"nonsense": {200, `{"skus": 3}`, nil, "read the Cloud Billing Catalog"},
		"no json":  {200, `<html>`, nil, "read the Cloud Billing Catalog"},
		"gone":     {404, ``, nil, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := serve(t, catalogue(), 5, func(page int, w http.ResponseWriter) bool {
				if page == 2 {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(tc.status)
					fmt.Fprint(w, tc.body)
				}
				return page == 2
			})
			p, err := c.Prices(t.Context(), nil, "2026-11-21")
			if p != nil || err == nil || !strings.Contains(err.Error(), tc.says) || tc.as != nil &&
				!errors.As(err, tc.as) {
				t.Errorf("prices %v, error %T: %v; expected none, and %q", p, err, err, tc.says)
			}
		})
	}
}

func TestWhatCannotBeAPrice(t *testing.T) {
	for name, spoil := range map[string]func(map[string]any){
		"unit":     func(s map[string]any) { expression(s)["usageUnit"] = "mo" },
		"currency": func(s map[string]any) { money(s)["currencyCode"] = "EUR" },
		"negative": func(s map[string]any) { money(s)["nanos"] = -1 },
		"nanos":    func(s map[string]any) { money(s)["nanos"] = 1_000_000_000 },
	} {
		all := catalogue()
		spoil(all[2])
		c, _ := serve(t, all, 100, nil)
		_, err := c.Prices(t.Context(), nil, "2026-11-21")
		if err == nil || !strings.Contains(err.Error(), "N2 Instance Ram") {
			t.Errorf("%s: error %v, expected one about the SKU N2 Instance Ram", name, err)
		}
	}
	c, _ := serve(t, catalogue()[:1], 100, nil)
	_, err := c.Prices(t.Context(), []string{"us-central1"}, "2026-11-21")
	if err == nil || !strings.Contains(err.Error(), "none of 1 SKUs") ||
		!strings.Contains(err.Error(), "us-central1") {
		t.Errorf("nothing of use: %v", err)
	}
}

func money(s map[string]any) map[string]any {
	return expression(s)["tieredRates"].([]any)[0].(map[string]any)["unitPrice"].(map[string]any)
}

func TestAnEndlessCatalogueEnds(t *testing.T) {
	c, asked := serve(t, nil, 1, func(_ int, w http.ResponseWriter) bool {
		fmt.Fprint(w, `{"skus": [], "nextPageToken": "from-0"}`)
		return true
	})
	_, err := c.Prices(t.Context(), nil, "2026-11-21")
	if err == nil || *asked != maxPages {
		t.Errorf("%d pages: %v", *asked, err)
	}
}

func TestEndpoint(t *testing.T) {
	var setup *cloud.SetupError
	for _, endpoint := range []string{"https://prices.example", "http://10.0.0.1:80", "::", "127.0.0.1:80",
		"localhost:80", "//127.0.0.1:80", "ftp://127.0.0.1:80", "http://127.0.0.1:80@prices.example:80",
		"http://127.0.0.1"} {
		if _, err := New(t.Context(), endpoint); !errors.As(err, &setup) {
			t.Errorf("the endpoint %q: error %v, expected a *cloud.SetupError", endpoint, err)
		}
	}
	c, err := New(t.Context(), "http://127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prices(t.Context(), nil, ""); !errors.As(err, &setup) {
		t.Errorf("nobody there: %v", err)
	}
}

func FuzzSKU(f *testing.F) {
	for _, s := range catalogue() {
		data, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s cloudbilling.Sku
		if json.Unmarshal(data, &s) != nil {
			return
		}
		find := newFinder(nil, "2026-11-21")
		if err := find.add(&s); err != nil && !strings.Contains(err.Error(), "SKU") {
			t.Fatalf("the error %v does not name the SKU", err)
		}
		for v := range maps.Values(find.found) {
			if !(v > 0) || math.IsInf(v, 0) {
				t.Fatalf("a price of %v", v)
			}
		}
	})
}
