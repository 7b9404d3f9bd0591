package machines

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"coppice/internal/atomicfile"
	"coppice/internal/strictyaml"
)

// HoursPerMonth is Google's month, by which monthly prices are charged by the hour.
const HoursPerMonth = 730

// Rate is the price of resources under one price model, in USD. Date and source are those of its Price if empty: the
// two models of one family and region may have been read at different times.
type Rate struct {
	VCPU   float64 `yaml:"vcpu" json:"vcpu"`               // per vCPU and hour
	GiB    float64 `yaml:"gib" json:"gib"`                 // of a GiB of memory for an hour
	SSD    float64 `yaml:"ssd" json:"ssd"`                 // of a GiB of local SSD for a month
	Date   string  `yaml:"date" json:"date,omitempty"`     // when it was read, YYYY-MM-DD
	Source string  `yaml:"source" json:"source,omitempty"` // a name among Prices.Sources
}

// Price is a family's price in one region. A model without a price is nil.
type Price struct {
	Family   string `yaml:"family" json:"family"`
	Region   string `yaml:"region" json:"region"`
	Date     string `yaml:"date" json:"date"`     // when it was read, YYYY-MM-DD
	Source   string `yaml:"source" json:"source"` // a name among Prices.Sources
	OnDemand *Rate  `yaml:"on_demand" json:"on_demand,omitempty"`
	Spot     *Rate  `yaml:"spot" json:"spot,omitempty"`
}

// Prices are the known prices.
type Prices struct {
	Sources map[string]string `yaml:"sources" json:"sources"` // by name
	Prices  []Price           `yaml:"prices" json:"prices"`
}

// rate returns a copy of the price under one model, with its own date and source; nil if there is none.
func (e Price) rate(spot bool) *Rate {
	r := e.OnDemand
	if spot {
		r = e.Spot
	}
	if r == nil {
		return nil
	}
	own := *r
	own.Date = cmp.Or(r.Date, e.Date)
	own.Source = cmp.Or(r.Source, e.Source)
	return &own
}

// Embedded returns the prices that came with the program, read once; they must not be modified.
func Embedded() *Prices { return embedded() }

//go:embed prices.yaml
var pricesFile []byte

var embedded = sync.OnceValue(func() *Prices {
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

// ReadPrices reads a file of prices. Every error is a *strictyaml.Error with line and column.
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

		if err := checkDate(e.Date); err != nil {
			return nil, doc.Errorf(at+".date", "%v", err)
		}
		for _, m := range []struct {
			name string
			rate *Rate
		}{{"on_demand", e.rate(false)}, {"spot", e.rate(true)}} {
			if err := m.rate.check(p.Sources); err != nil {
				return nil, doc.Errorf(at+"."+m.name, "%s: %v", m.name, err)
			}
		}
	}
	return &p, nil
}

func (r *Rate) check(sources map[string]string) error {
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

	if sources[r.Source] == "" {
		return fmt.Errorf("source %.40q is not among sources", r.Source)
	}
	return checkDate(r.Date)
}

func checkDate(s string) error {
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		return fmt.Errorf("date %.40q: write YYYY-MM-DD", s)
	}
	return nil
}

// Hourly is the hourly price of one machine of a type with that many local SSDs, in USD, and the rate used, with its
// date and source. ok is false if no price is known.
func (p *Prices) Hourly(t Type, region string, spot bool, disks int) (usd float64, from Rate, ok bool) {
	i := slices.IndexFunc(p.Prices, func(e Price) bool { return e.Family == t.Family && e.Region == region })
	if i < 0 {
		return 0, Rate{}, false
	}
	r := p.Prices[i].rate(spot)
	if r == nil {
		return 0, Rate{}, false
	}
	return r.VCPU*float64(t.VCPUs) + r.GiB*t.GiB() + r.SSD*float64(disks*DiskGiB)/HoursPerMonth, *r, true
}

// Over merges p's prices with those of other. If both have a price for the same family, region and model, the newer
// counts, and p's on the same date. Each model keeps its own date and source: what is filled in from an older list
// stays old.
func (p *Prices) Over(other *Prices) *Prices {
	out := &Prices{Sources: map[string]string{}}
	for _, from := range []*Prices{p, other} {
		for _, e := range from.Prices {
			i := slices.IndexFunc(out.Prices, func(have Price) bool {
				return have.Family == e.Family &&
					have.Region == e.Region
			})
			if i < 0 {
				i = len(out.Prices)
				out.Prices = append(out.Prices, Price{Family: e.Family, Region: e.Region})
			}

			both := &out.Prices[i]
			both.OnDemand = out.newer(both.OnDemand, e.rate(false), from.Sources)
			both.Spot = out.newer(both.Spot, e.rate(true), from.Sources)
		}
	}

	for i := range out.Prices {
		out.Prices[i].gather()
	}
	slices.SortFunc(out.Prices, func(a, b Price) int {
		return strings.Compare(a.Family+" "+a.Region, b.Family+" "+b.Region)
	})
	return out
}

// newer returns the rate that counts: p's own, or a newer one from a list with other sources, whose source is then
// added to p. A different source with the same name gets a new name.
func (p *Prices) newer(have, r *Rate, sources map[string]string) *Rate {
	if r == nil || have != nil && r.Date <= have.Date { // YYYY-MM-DD
		return have
	}
	text := sources[r.Source]
	for known, ok := p.Sources[r.Source]; ok && known != text; known, ok = p.Sources[r.Source] {
		r.Source += "+"
	}
	p.Sources[r.Source] = text
	return r
}

// gather moves date and source to the price: those of the newer model, or of on demand if both have the same date.
func (e *Price) gather() {
	newest := e.OnDemand
	if newest == nil || e.Spot != nil && e.Spot.Date > newest.Date {
		newest = e.Spot
	}
	if newest == nil {
		return
	}

	e.Date = newest.Date
	e.Source = newest.Source

	for _, r := range []*Rate{e.OnDemand, e.Spot} {
		if r != nil && r.Date == e.Date {
			r.Date = ""
		}
		if r != nil && r.Source == e.Source {
			r.Source = ""
		}
	}
}

// WriteFile replaces the file at path atomically, and creates its folder. ReadPrices can read it: JSON is YAML.
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
	if err := atomicfile.Write(path, data, 0o644); err != nil {
		return fmt.Errorf("write prices to %s: %w", path, err)
	}
	return nil
}
