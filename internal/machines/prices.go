package machines

import (
	_ "embed"
	"fmt"
	"regexp"
	"sync"
	"time"

	"coppice/internal/strictyaml"
)

// hoursPerMonth is Google's month, by which monthly prices are charged by the hour.
const hoursPerMonth = 730

// Rate is the price of resources under one price model, in USD.
type Rate struct {
	VCPU float64 `yaml:"vcpu"` // per vCPU and hour
	GiB  float64 `yaml:"gib"`  // of a GiB of memory for an hour
	SSD  float64 `yaml:"ssd"`  // of a GiB of local SSD for a month
}

// Price is a family's price in one region. A model without a price is nil.
type Price struct {
	Family   string `yaml:"family"`
	Region   string `yaml:"region"`
	Date     string `yaml:"date"`   // when it was read, YYYY-MM-DD
	Source   string `yaml:"source"` // in words; in the file, a name among sources
	OnDemand *Rate  `yaml:"on_demand"`
	Spot     *Rate  `yaml:"spot"`
}

// Prices are the known prices. Of two for the same family, region and model, the first counts.
type Prices []Price

// rate returns the rate on Spot or on demand; nil if it is not known.
func (e Price) rate(spot bool) *Rate {
	if spot {
		return e.Spot
	}
	return e.OnDemand
}

// Embedded returns the prices that came with the program, read once; they must not be modified.
func Embedded() Prices { return embedded() }

//go:embed prices.yaml
var pricesFile []byte

var embedded = sync.OnceValue(func() Prices {
	p, err := ReadPrices("prices.yaml", pricesFile)
	if err != nil {
		panic(fmt.Sprintf("the embedded prices: %v", err))
	}
	return p
})

// Limits on prices: more than maxRate dollars for a vCPU hour is a mistake in the file.
const (
	maxRate   = 1000
	maxPrices = 20_000
)

var (
	familyPattern = regexp.MustCompile(`^[a-z][0-9a-z]{1,5}$`)
	regionPattern = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
)

// ReadPrices reads and checks a file of prices. file is its name for messages. Sources are replaced by their texts.
// Every error is a *strictyaml.Error with line and column.
func ReadPrices(file string, data []byte) (Prices, error) {
	var p struct {
		Sources map[string]string `yaml:"sources"` // by name
		Prices  Prices            `yaml:"prices"`
	}
	doc, err := strictyaml.Decode(file, data, &p)
	if err != nil {
		return nil, err
	}
	if len(p.Prices) == 0 || len(p.Prices) > maxPrices {
		return nil, doc.Errorf("prices", "%d prices: give 1 to %d", len(p.Prices), maxPrices)
	}

	seen := map[[2]string]bool{}
	for i, e := range p.Prices {
		at := fmt.Sprintf("prices[%d]", i)
		switch key := [2]string{e.Family, e.Region}; {
		case !familyPattern.MatchString(e.Family):
			return nil, doc.Errorf(at+".family", "family %.40q: use letters and digits", e.Family)
		case !regionPattern.MatchString(e.Region):
			return nil, doc.Errorf(at+".region", "%.40q is not a region such as us-central1", e.Region)
		case seen[key]:
			return nil, doc.Errorf(at, "%s in %s has a price before", e.Family, e.Region)
		case p.Sources[e.Source] == "":
			return nil, doc.Errorf(at+".source", "source %.40q is not among sources", e.Source)
		case e.OnDemand == nil && e.Spot == nil:
			return nil, doc.Errorf(at, "%s in %s has neither on_demand nor spot", e.Family, e.Region)
		default:
			seen[key] = true
		}

		if _, err := time.Parse(time.DateOnly, e.Date); err != nil {
			return nil, doc.Errorf(at+".date", "date %.40q: write YYYY-MM-DD", e.Date)
		}
		for _, m := range []struct {
			name string
			rate *Rate
		}{{"on_demand", e.OnDemand}, {"spot", e.Spot}} {
			if err := m.rate.check(); err != nil {
				return nil, doc.Errorf(at+"."+m.name, "%s: %v", m.name, err)
			}
		}
		p.Prices[i].Source = p.Sources[e.Source]
	}
	return p.Prices, nil
}

// check returns an error unless every part of the rate is above 0 and at most maxRate. A nil rate, which is not known,
// passes.
func (r *Rate) check() error {
	if r == nil {
		return nil
	}
	for _, part := range []struct {
		name string
		usd  float64
	}{{"vcpu", r.VCPU}, {"gib", r.GiB}, {"ssd", r.SSD}} {
		if !(part.usd > 0) || part.usd > maxRate {
			return fmt.Errorf("%s is %v: use a price above 0, up to %d", part.name, part.usd, maxRate)
		}
	}
	return nil
}

// Hourly returns the price of one machine of the type in a region for an hour, in USD, with so many local SSDs, and the
// entry that it is computed from. ok is false if no price is known.
func (p Prices) Hourly(t Type, region string, spot bool, disks int) (usd float64, from Price, ok bool) {
	for _, e := range p {
		if r := e.rate(spot); e.Family == t.Family && e.Region == region && r != nil {
			return r.VCPU*float64(t.VCPUs) + r.GiB*t.GiB() + r.SSD*float64(disks*DiskGiB)/hoursPerMonth, e, true
		}
	}
	return 0, Price{}, false
}
