package billing

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/api/cloudbilling/v1"

	"coppice/internal/machines"
)

// resource is what a SKU prices.
type resource int

const (
	vcpu resource = iota
	memory
	disk
	resources // their number
)

// kind is a resource of a family under a price model. The family is empty for local SSDs shared by all families.
type kind struct {
	family   string
	spot     bool
	resource resource
}

// place is a kind in a region.
type place struct {
	kind
	region string
}

// finder collects the wanted prices from many SKUs.
type finder struct {
	regions  []string // empty for all
	date     string
	patterns []pattern
	found    map[place]float64
}

// pattern recognises a kind by a description.
type pattern struct {
	text *regexp.Regexp
	kind kind
}

// Descriptions of shared local SSDs.
const (
	sharedDisk     = `^SSD backed Local Storage( in .+)?$`
	sharedDiskSpot = `^SSD backed Local Storage attached to Spot Preemptible VMs( in .+)?$`
)

func newFinder(regions []string, date string) *finder {
	f := &finder{regions: regions, date: date, found: map[place]float64{}, patterns: []pattern{
		{regexp.MustCompile(sharedDisk), kind{"", false, disk}},
		{regexp.MustCompile(sharedDiskSpot), kind{"", true, disk}},
	}}

	for _, family := range machines.Families() {
		for spot, prefix := range map[bool]string{false: "", true: "Spot Preemptible "} {
			of := func(words string) *regexp.Regexp {
				return regexp.MustCompile("^" + regexp.QuoteMeta(prefix+words) + " running in .+$")
			}
			f.patterns = append(f.patterns, pattern{of(family.SKU + " Core"), kind{family.Name, spot, vcpu}},
				pattern{of(family.SKU + " Ram"), kind{family.Name, spot, memory}})
			if family.DiskSKU != "" {
				f.patterns = append(f.patterns, pattern{of(family.DiskSKU), kind{family.Name, spot, disk}})
			}
		}
	}
	return f
}

// usage is Google's name of each price model.
var usage = map[bool]string{false: "OnDemand", true: "Preemptible"}

// add takes a SKU's price if it is wanted. Of several SKUs for the same thing the most expensive counts, so that a
// quote is not below the bill.
func (f *finder) add(sku *cloudbilling.Sku) error {
	if sku == nil || sku.Category == nil {
		return nil
	}

	i := slices.IndexFunc(f.patterns, func(p pattern) bool {
		return sku.Category.UsageType == usage[p.kind.spot] && p.text.MatchString(sku.Description)
	})
	if i < 0 {
		return nil
	}

	k := f.patterns[i].kind
	usd, ok, err := price(sku, k.resource)
	if err != nil {
		return fmt.Errorf(service+": SKU %.40q, %.100q: %v", sku.SkuId, sku.Description, err)
	}

	for _, region := range sku.ServiceRegions {
		if ok && (len(f.regions) == 0 || slices.Contains(f.regions, region)) {
			p := place{k, region}
			f.found[p] = max(f.found[p], usd)
		}
	}
	return nil
}

// units are the pricing units of resources, with the factor to the unit of package machines.
var units = map[resource]map[string]float64{
	vcpu:   {"h": 1},
	memory: {"GiBy.h": 1},
	disk:   {"GiBy.mo": 1, "GiBy.h": machines.HoursPerMonth},
}

// price returns a SKU's latest price, in USD. ok is false if it is free or has no price.
func price(sku *cloudbilling.Sku, r resource) (usd float64, ok bool, err error) {
	var newest *cloudbilling.PricingInfo
	for _, info := range sku.PricingInfo {
		if info != nil && info.PricingExpression != nil && (newest == nil || effective(info).After(effective(newest))) {
			newest = info
		}
	}

	if newest == nil {
		return 0, false, nil
	}

	e := newest.PricingExpression
	factor, known := units[r][e.UsageUnit]
	if !known {
		return 0, false, fmt.Errorf("priced by %.40q, which is not known here", e.UsageUnit)
	}

	for _, tier := range e.TieredRates {
		if tier == nil || tier.UnitPrice == nil {
			continue
		}

		m := tier.UnitPrice
		if m.CurrencyCode != "USD" {
			return 0, false, fmt.Errorf("priced in %.10q, not in USD", m.CurrencyCode)
		}
		if m.Units < 0 || m.Nanos < 0 || m.Nanos > 999_999_999 {
			return 0, false, fmt.Errorf("a price of %d and %d nanos", m.Units, m.Nanos)
		}
		// the most expensive tier: the others are free quantities
		usd = max(usd, factor*(float64(m.Units)+float64(m.Nanos)/1e9))
	}
	return usd, usd > 0, nil
}

func effective(info *cloudbilling.PricingInfo) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, info.EffectiveTime) // without a time it counts as the oldest
	return t
}

// source is the name of these prices' source.
const source = "catalog"

// prices makes entries for all families and regions with complete prices.
func (f *finder) prices(skus int) (*machines.Prices, error) {
	out := &machines.Prices{Sources: map[string]string{source: "Cloud Billing Catalog API, " + computeEngine +
		"/skus, read on " + f.date}}
	regions := map[string]bool{}
	for p := range f.found {
		regions[p.region] = true
	}

	for _, family := range machines.Families() {
		for region := range regions {
			e := machines.Price{Family: family.Name, Region: region, Date: f.date, Source: source,
				OnDemand: f.rate(family, region, false), Spot: f.rate(family, region, true)}
			if e.OnDemand != nil || e.Spot != nil {
				out.Prices = append(out.Prices, e)
			}
		}
	}

	if len(out.Prices) == 0 {
		where := "any region"
		if len(f.regions) > 0 {
			where = strings.Join(f.regions, ", ")
		}
		return nil, fmt.Errorf(service+": none of %d SKUs gives a complete price of a known family in %.200s; "+
			"check the region's name, or the descriptions may have changed", skus, where)
	}

	slices.SortFunc(out.Prices, func(a, b machines.Price) int {
		return cmp.Or(strings.Compare(a.Family, b.Family), strings.Compare(a.Region, b.Region))
	})
	return out, nil
}

// rate is a family's price in a region under a model; nil if a part has no price.
func (f *finder) rate(family machines.Family, region string, spot bool) *machines.Rate {
	var part [resources]float64
	for r := range resources {
		owner := family.Name
		if r == disk && family.DiskSKU == "" {
			owner = ""
		}
		part[r] = f.found[place{kind{owner, spot, r}, region}]
		if part[r] == 0 {
			return nil
		}
	}
	return &machines.Rate{VCPU: part[vcpu], GiB: part[memory], SSD: part[disk]}
}
