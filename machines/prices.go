package machines

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"coppice/strictyaml"
)

// hoursPerMonth is Google's month, by which prices per month are charged by the hour.
const hoursPerMonth = 730

// Rate is what resources cost under one price model, in USD.
type Rate struct {
	VCPU float64 `yaml:"vcpu" json:"vcpu"` // of a vCPU for an hour
	GiB  float64 `yaml:"gib" json:"gib"`   // of a GiB of memory for an hour
	SSD  float64 `yaml:"ssd" json:"ssd"`   // of a GiB of local SSD for a month
}

// Price is a family's in one region. A model without a price is nil.
type Price struct {
	Family   string `yaml:"family" json:"family"`
	Region   string `yaml:"region" json:"region"`
	Date     string `yaml:"date" json:"date"`     // when it was read, YYYY-MM-DD
	Source   string `yaml:"source" json:"source"` // a name among Prices.Sources
	OnDemand *Rate  `yaml:"on_demand" json:"on_demand,omitempty"`
	Spot     *Rate  `yaml:"spot" json:"spot,omitempty"`
}

// Prices are what is known about prices.
type Prices struct {
	Sources map[string]string `yaml:"sources" json:"sources"` // by name
	Prices  []Price           `yaml:"prices" json:"prices"`
}

// Embedded reads the prices that came with the program.
func Embedded() (*Prices, error) { return ReadPrices("prices.yaml", pricesFile) }

// Bounds of a price: an hour of a vCPU for more than maxRate dollars is a mistake in the file.
const (
	maxRate   = 1000
	maxPrices = 20_000
)

var regionPattern = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)

// ReadPrices reads a file of prices. Every error is a *strictyaml.Error that names line and column.
func ReadPrices(file string, data []byte) (*Prices, error) {
	var p Prices
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
			return nil, doc.Errorf(at+".region", "%.40q is no region, such as us-central1", e.Region)
		case seen[key]:
			return nil, doc.Errorf(at, "%s in %s has a price before", e.Family, e.Region)
		case p.Sources[e.Source] == "":
			return nil, doc.Errorf(at+".source", "source %.40q is not among sources", e.Source)
		case e.OnDemand == nil && e.Spot == nil:
			return nil, doc.Errorf(at, "%s in %s has neither on_demand nor spot", e.Family, e.Region)
		default:
			seen[key] = true
		}
		if err := checkDate(e.Date); err != nil {
			return nil, doc.Errorf(at+".date", "%v", err)
		}
		for name, r := range map[string]*Rate{"on_demand": e.OnDemand, "spot": e.Spot} {
			if err := r.check(); err != nil {
				return nil, doc.Errorf(at+"."+name, "%s: %v", name, err)
			}
		}
	}
	return &p, nil
}

func (r *Rate) check() error {
	if r == nil {
		return nil
	}
	for name, v := range map[string]float64{"vcpu": r.VCPU, "gib": r.GiB, "ssd": r.SSD} {
		if !(v > 0) || v > maxRate {
			return fmt.Errorf("%s is %v: use a price above 0, up to %d", name, v, maxRate)
		}
	}
	return nil
}

// Hourly is what one machine of a type with so many local SSDs costs an hour, in USD. ok is false where no price is known.
func (p *Prices) Hourly(t Type, region string, spot bool, disks int) (usd float64, from Price, ok bool) {
	i := slices.IndexFunc(p.Prices, func(e Price) bool { return e.Family == t.Family && e.Region == region })
	if i < 0 {
		return 0, Price{}, false
	}
	from = p.Prices[i]
	r := from.OnDemand
	if spot {
		r = from.Spot
	}
	if r == nil {
		return 0, from, false
	}
	return r.VCPU*float64(t.VCPUs) + r.GiB*t.GiB() + r.SSD*float64(disks*DiskGiB)/hoursPerMonth, from, true
}

// Over puts p's prices together with those of other. Where both have a price of one family, region and model, that with the newer date
// counts, and p's of the same date.
func (p *Prices) Over(other *Prices) *Prices {
	out := &Prices{Sources: map[string]string{}}
	rename := func(name, from string) string {
		for have, known := out.Sources[name]; known && have != from; have, known = out.Sources[name] {
			name += "+"
		}
		out.Sources[name] = from
		return name
	}
	for _, from := range []*Prices{p, other} {
		for _, e := range from.Prices {
			i := slices.IndexFunc(out.Prices, func(have Price) bool { return have.Family == e.Family && have.Region == e.Region })
			if i < 0 {
				e.Source = rename(e.Source, from.Sources[e.Source])
				out.Prices = append(out.Prices, e)
				continue
			}
			first, second := out.Prices[i], e
			if e.Date > first.Date { // YYYY-MM-DD
				e.Source = rename(e.Source, from.Sources[e.Source])
				first, second = e, first
			}
			if first.OnDemand == nil {
				first.OnDemand = second.OnDemand
			}
			if first.Spot == nil {
				first.Spot = second.Spot
			}
			out.Prices[i] = first
		}
	}
	slices.SortFunc(out.Prices, func(a, b Price) int {
		return strings.Compare(a.Family+" "+a.Region, b.Family+" "+b.Region)
	})
	return out
}

// WriteFile replaces the file at path as a whole, or leaves it as it was; it makes the folder. ReadPrices reads it: JSON is YAML.
func (p *Prices) WriteFile(path string) error {
	data, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return fmt.Errorf("write prices: %w", err)
	}
	data = append(data, '\n')
	if _, err := ReadPrices(path, data); err != nil {
		return fmt.Errorf("what was about to be written could not be read again: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write prices: %w", err)
	}
	if err := renameio.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write prices: %w", err)
	}
	return nil
}
