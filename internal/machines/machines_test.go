package machines_test

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/machines"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// TestTypes: vCPUs, memory and local SSDs of a type are those that Compute Engine documents.
func TestTypes(t *testing.T) {
	for name, want := range map[string]struct {
		vcpus int
		gib   float64
		disks []int
		fixed bool
	}{
		"n2-highmem-16":         {16, 128, []int{2, 4, 8, 16, 24}, false},
		"n2-highmem-2":          {2, 16, []int{1, 2, 4, 8, 16, 24}, false},
		"n2-highmem-128":        {128, 864, []int{16, 24}, false},
		"c3-standard-176-lssd":  {176, 704, []int{32}, true},
		"c3-highmem-176":        {176, 1408, nil, false},
		"c3d-highcpu-90":        {90, 177, nil, false},
		"c4d-highmem-64-lssd":   {64, 504, []int{6}, true},
		"m1-ultramem-40":        {40, 961, []int{1, 2, 3, 4, 5}, false},
		"m1-megamem-96":         {96, 1433.6, nil, false},
		"m3-ultramem-128":       {128, 3904, []int{8}, false},
		"e2-highcpu-32":         {32, 32, nil, false},
		"n2d-highmem-96":        {96, 768, []int{8, 16, 24}, false},
		"c4-highmem-288-lssd":   {288, 2232, []int{48}, true},
		"c3d-standard-360-lssd": {360, 1440, []int{32}, true},
		"n1-standard-1":         {1, 3.75, []int{1, 2, 3, 4, 5, 6, 7, 8, 16, 24}, false},
		"c2d-highmem-112":       {112, 896, []int{8}, false},
		"t2d-standard-60":       {60, 240, nil, false},
		"n4-highmem-80":         {80, 640, nil, false},
		"c4d-standard-16-lssd":  {16, 62, []int{1}, true},
		"c3d-highmem-8-lssd":    {8, 64, []int{1}, true},
		"c2-standard-60":        {60, 240, []int{8}, false},
		"m3-megamem-64":         {64, 976, []int{4, 8}, false},
		"c4-standard-32-lssd":   {32, 120, []int{5}, true},
		"n2d-standard-224":      {224, 896, []int{8, 16, 24}, false},
		"n2-highcpu-96":         {96, 96, []int{16, 24}, false},
		"c3-standard-22-lssd":   {22, 88, []int{4}, true},
		"c4d-highmem-384-lssd":  {384, 3024, []int{32}, true},
		"c4-highcpu-2":          {2, 4, nil, false},
		"m1-ultramem-160":       {160, 3844, nil, false},
		"c3d-highmem-60-lssd":   {60, 480, []int{4}, true},
		"n2-standard-48":        {48, 192, []int{8, 16, 24}, false},
		"c2d-standard-56":       {56, 224, []int{4, 8}, false},
		"n1-highmem-96":         {96, 624, []int{1, 2, 3, 4, 5, 6, 7, 8, 16, 24}, false},
		"c3d-standard-30-lssd":  {30, 120, []int{2}, true},
		"c4d-highmem-8-lssd":    {8, 63, []int{1}, true},
		"n2d-highcpu-64":        {64, 64, []int{4, 8, 16, 24}, false},
		"c4-highmem-24-lssd":    {24, 186, []int{4}, true},
		"c3-standard-4":         {4, 16, nil, false},
		"e2-standard-2":         {2, 8, nil, false},
		"c3d-highmem-360-lssd":  {360, 2880, []int{32}, true},
	} {
		m, err := machines.Find(name)
		if err != nil {
			t.Errorf("%s: got error %v, want the machine type", name, err)
			continue
		}
		if m.VCPUs != want.vcpus || math.Abs(m.GiB()-want.gib) > 1e-6 || !slices.Equal(m.Disks, want.disks) ||
			m.BuiltIn != want.fixed {
			t.Errorf("%s: got %+v, want %+v", name, m, want)
		}
	}
}

// TestHostsOfACluster: hosts of a cluster are named custom-VCPUS-MIB, take no local SSDs from a sweep, and have no
// price. Names that are not exactly of that form are refused.
func TestHostsOfACluster(t *testing.T) {
	m, err := machines.Find("custom-16-65536")
	if err != nil || m.VCPUs != 16 || m.MemoryBytes != 64<<30 || m.Name != "custom-16-65536" {
		t.Fatalf("16 vCPUs and 64 GiB: %+v, %v; want a machine of that size", m, err)
	}
	if n, err := m.FewestDisks(1 << 40); n != 0 || err != nil {
		t.Errorf("%d local SSDs for a dataset, %v; want none", n, err)
	}
	if _, _, ok := machines.Embedded().Hourly(m, "us-central1", true, 0); ok {
		t.Error("a cluster's host has a price, want none")
	}
	for _, name := range []string{"custom-0-65536", "custom-16-64", "custom-16-065536", "custom-16",
		"custom-16-65536-lssd"} {
		if m, err := machines.Find(name); !problem.Is(err, problem.Input) {
			t.Errorf("%s is read as %+v, %v; want it refused", name, m, err)
		}
	}
}

// TestUnknownTypes: an unknown type is an error with the nearest family or its sizes.
func TestUnknownTypes(t *testing.T) {
	for name, says := range map[string]string{
		"n2-highmen-64":       `did you mean "n2-highmem"?`,
		"big":                 "such as n2-highmem-64",
		"n2-highmem-65":       "has the sizes 2, 4, 8, 16, 32, 48, 64, 80, 96, 128",
		"c3-highmem-176-lssd": "has the sizes 4, 8, 22, 44, 88, 176",
		"":                    "such as n2-highmem-64",
		"n2-highmem-64-lssd":  "sizes 2,",
	} {
		_, err := machines.Find(name)
		if !problem.Is(err, problem.Input) || !strings.Contains(err.Error(), says) {
			t.Errorf("machine type %q: error %v, expected one of kind input with %q", name, err, says)
		}
	}
}

// TestDisks: a number of local SSDs that a type cannot have is refused with those that it can, and the fewest that hold
// some bytes are found.
func TestDisks(t *testing.T) {
	for name, tc := range map[string]struct {
		machine string
		disks   int
		says    string
	}{
		"allowed":        {"n2-highmem-64", 8, ""},
		"between":        {"n2-highmem-64", 4, "n2-highmem-64 takes 8, 16 or 24 local SSDs, not 4"},
		"built in":       {"c4d-highmem-64-lssd", 6, ""},
		"built in, else": {"c4d-highmem-64-lssd", 8, "comes with 6 local SSDs, not 8"},
		"none": {"e2-highmem-16", 1,
			"takes no local SSD, where the dataset has to lie; use a type that does, such as n2-highmem-16"},
		"one":               {"c2-standard-60", 4, "takes 8 local SSDs, not 4"},
		"none, an odd size": {"c3-highmem-22", 1, "such as n2-highmem-32"},
		"none, the largest": {"c3-highmem-176", 1, "such as n2-highmem-128"},
	} {
		m := must.Get(machines.Find(tc.machine))(t)
		err := m.CheckDisks(tc.disks)
		if (tc.says == "") != (err == nil) || err != nil &&
			(!problem.Is(err, problem.Input) || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: %d disks on %s: error %v, expected %q", name, tc.disks, tc.machine, err, tc.says)
		}
	}
	m := must.Get(machines.Find("n2-highmem-16"))(t)
	for bytes, want := range map[int64]int{0: 2, 1: 2, 2 * machines.DiskBytes: 2, 2*machines.DiskBytes + 1: 4,
		24 * machines.DiskBytes: 24} {
		if n, err := m.FewestDisks(bytes); n != want || err != nil {
			t.Errorf("%d bytes: %d disks, %v; want %d", bytes, n, err, want)
		}
	}
	want := "at most 24 local SSDs, which hold 9000 GiB; 9001 GiB are needed"
	if _, err := m.FewestDisks(24*machines.DiskBytes + 1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a dataset of more than 24 disks: error %v, expected %q", err, want)
	}
	none := must.Get(machines.Find("n4-highmem-16"))(t)
	if _, err := none.FewestDisks(1); err == nil {
		t.Error("room for one byte on a type without local SSDs: got no error, want one")
	}
}

// TestPricesOfKnownTypes: hourly prices that are added up from vCPUs, memory and disks agree to 1e-5 with prices of
// whole machine types in the same source, from which no part was derived.
func TestPricesOfKnownTypes(t *testing.T) {
	p := machines.Embedded()
	for _, tc := range []struct {
		name, region string
		demand, spot float64
	}{
		{"n2-highmem-32", "us-central1", 2.096224, 1.203072},
		{"n2-highmem-48", "europe-west1", 3.458928, 0.719136},
		{"n2-highmem-4", "us-east4", 0.295092, 0.070768},
		{"n2-highmem-48", "europe-west4", 3.461472, 1.079136},
		{"n2-highmem-4", "us-west1", 0.262028, 0.150384},
		{"c3d-highmem-90-lssd", "europe-west4", 6.14835133561644, 3.38948630136986},
		{"c3d-highmem-90-lssd", "europe-west1", 6.39709452328767, 1.8358002739726},
		{"c4d-highmem-96", "us-east1", 5.977067088, 2.202332124},
		{"c4d-highmem-96-lssd", "europe-west1", 7.30535763090411, 3.79690744816438},
	} {
		m := must.Get(machines.Find(tc.name))(t)
		disks := 0
		if m.BuiltIn {
			disks = m.Disks[0]
		}
		for spot, want := range map[bool]float64{false: tc.demand, true: tc.spot} {
			got, from, ok := p.Hourly(m, tc.region, spot, disks)
			if !ok || math.Abs(got/want-1) > 1e-5 || from.Date == "" || !strings.Contains(from.Source, " ") {
				t.Errorf("%s in %s, Spot %t: %v (%t), the source says %v", tc.name, tc.region, spot, got, ok, want)
			}
		}
	}
}

// TestNoPriceIsNoPrice: where the list has no price, as for Spot machines of n2d and for an unknown region, Hourly
// returns false and 0. Every price in the list is of a family in the catalogue, and Spot is cheaper than on demand.
func TestNoPriceIsNoPrice(t *testing.T) {
	p := machines.Embedded()
	m := must.Get(machines.Find("n2d-highmem-32"))(t)
	if usd, _, ok := p.Hourly(m, "us-central1", false, 2); !ok || math.Abs(usd-1.8237-2*375*0.08/730) > 1e-3 {
		t.Errorf("on demand %v %t; want 1.82 USD and two disks", usd, ok)
	}
	if usd, _, ok := p.Hourly(m, "us-central1", true, 2); ok || usd != 0 {
		t.Errorf("a Spot price that is not in the list: got %v, %t; want none", usd, ok)
	}
	if usd, _, ok := p.Hourly(m, "mars-north1", false, 2); ok || usd != 0 {
		t.Errorf("a price in a region that does not exist: got %v, %t; want none", usd, ok)
	}

	for _, e := range p {
		if _, ok := machines.Families()[e.Family]; !ok {
			t.Errorf("there is a price of the family %s, which is not in the catalogue; want none", e.Family)
		}
		if e.Spot != nil && (e.Spot.VCPU >= e.OnDemand.VCPU || e.Spot.GiB >= e.OnDemand.GiB ||
			e.Spot.SSD >= e.OnDemand.SSD) {
			t.Errorf("%s in %s: Spot %+v, on demand %+v; want Spot cheaper", e.Family, e.Region, *e.Spot, *e.OnDemand)
		}
	}
}

// own is a user's file of prices: those of two families in one region, for Spot machines alone.
const own = `
sources: {catalog: another reading}
prices:
  - {family: n2, region: us-central1, date: 2025-11-01, source: catalog, spot: {vcpu: 0.01, gib: 0.001, ssd: 0.05}}
  - {family: n2d, region: us-central1, date: 2025-11-01, source: catalog, spot: {vcpu: 0.007, gib: 0.0009, ssd: 0.05}}
`

// TestOwnPricesGoBefore: a price from the user's file counts, although the built-in one is newer. For what the file
// does not say, here on-demand machines and other regions, the built-in prices count as before. The machine has 8
// vCPUs, 64 GiB and one local disk of 375 GB, which is priced by the month of 730 hours.
func TestOwnPricesGoBefore(t *testing.T) {
	old := machines.Embedded()
	p := must.Get(machines.ReadPrices("own.yaml", []byte(own)))(t)
	both := slices.Concat(p, old)
	m := must.Get(machines.Find("n2-highmem-8"))(t)
	usd, from, ok := both.Hourly(m, "us-central1", true, 1)
	if want := 8*0.01 + 64*0.001 + 375*0.05/730; !ok || math.Abs(usd-want) > 1e-9 || from.Source != "another reading" ||
		from.Date != "2025-11-01" {
		t.Errorf("got %v US dollars an hour from %+v, want %v from the file", usd, from, want)
	}
	demand, from, _ := both.Hourly(m, "us-central1", false, 1)
	before, was, _ := old.Hourly(m, "us-central1", false, 1)
	if demand != before || from.Date != was.Date || from.Source != was.Source {
		t.Errorf("on demand, of which the file says nothing: got %v from %+v, want the built-in %v from %+v", demand,
			from, before, was)
	}
	other, from, _ := both.Hourly(m, "us-east4", true, 1)
	if want, _, _ := old.Hourly(m, "us-east4", true, 1); other != want || !strings.Contains(from.Source,
		"Cloud Billing") {
		t.Errorf("another region: got %v from %q, want the built-in price from Cloud Billing", other, from.Source)
	}
}

// TestPlaceOfErrors: a mistake in a file of prices is an error that names the line. Each case makes one mistake in own.
func TestPlaceOfErrors(t *testing.T) {
	for name, tc := range map[string]struct{ text, says string }{
		"family": {strings.Replace(own, "family: n2,", "family: N2,", 1), `own.yaml:4:14: family "N2"`},
		"region": {strings.Replace(own, "region: us-central1", "region: here", 1),
			`own.yaml:4:26: "here" is not a region`},
		"twice": {strings.Replace(own, "family: n2d", "family: n2", 1), "n2 in us-central1 has a price before"},
		"source": {strings.Replace(own, "source: catalog", "source: hearsay", 1),
			`source "hearsay" is not among sources`},
		"date":    {strings.Replace(own, "2025-11-01", "2026-13-01", 1), "write YYYY-MM-DD"},
		"free":    {strings.Replace(own, "vcpu: 0.01,", "vcpu: 0,", 1), "vcpu is 0"},
		"endless": {strings.Replace(own, "vcpu: 0.01,", "vcpu: .inf,", 1), `expected a number, found ".inf"`},
		"nothing": {"sources: {}\nprices: []\n", "0 prices"},
		"key":     {strings.Replace(own, "spot:", "sport:", 1), `did you mean "spot"?`},
		"no rate": {strings.Replace(own, ", spot: {vcpu: 0.01, gib: 0.001, ssd: 0.05}", "", 1),
			"neither on_demand nor spot"},
	} {
		_, err := machines.ReadPrices("own.yaml", []byte(tc.text))
		var at *strictyaml.Error
		if !errors.As(err, &at) || at.Line == 0 || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %v, expected %q with its line", name, err, tc.says)
		}
	}
}

// FuzzReadPrices: no file of prices makes ReadPrices crash, and every hourly price from an accepted file is above 0 and
// finite.
func FuzzReadPrices(f *testing.F) {
	f.Add([]byte(own))
	f.Add([]byte(`{"sources":{"a":"b"},"prices":[{"family":"n2","region":"us-east1","date":"2026-01-01","source":"a","spot":{"vcpu":1,"gib":1,"ssd":1}}]}`))
	m := must.Get(machines.Find("n2-highmem-8"))(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := machines.ReadPrices("f", data)
		if err != nil {
			return
		}
		for _, e := range p {
			for _, spot := range []bool{false, true} {
				if usd, _, ok := p.Hourly(m, e.Region, spot, 4); ok && (!(usd > 0) || math.IsInf(usd, 0)) {
					t.Errorf("a price of %v in %s, want it above 0 and finite", usd, e.Region)
				}
			}
		}
	})
}

// TestTheCatalogueIsWhole: types.yaml names each size once, has exceptions of memory only for sizes that exist, and
// every type has at least one vCPU, 1 GiB and local SSDs in order.
func TestTheCatalogueIsWhole(t *testing.T) {
	sizes := 0
	for family, f := range machines.Families() {
		if len(f.Shapes) == 0 {
			t.Errorf("family %s has no shapes", family)
		}
		for name, s := range f.Shapes {
			sizes += len(s.Sizes) + len(s.BuiltIn)
			for size := range s.Memory {
				if n, err := strconv.Atoi(size); err != nil || !slices.Contains(s.Sizes, n) {
					t.Errorf("%s-%s has the memory of a size %q, which it does not have", family, name, size)
				}
			}
		}
	}
	if all := machines.All(); len(all) != sizes {
		t.Errorf("%d types of %d sizes, want as many: a size is there twice", len(all), sizes)
	}
	for _, m := range machines.All() {
		if m.VCPUs < 1 || m.MemoryBytes < 1<<30 || m.BuiltIn && len(m.Disks) != 1 || !slices.IsSorted(m.Disks) {
			t.Errorf("the type %+v has an impossible number", m)
		}
		if n, err := m.FewestDisks(1); err == nil && m.CheckDisks(n) != nil {
			t.Errorf("%+v refuses %d disks, which FewestDisks returned; want them accepted", m, n)
		}
	}
}
