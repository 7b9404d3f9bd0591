package machines

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"coppice/internal/strictyaml"
)

// lssd is the suffix of a type with built-in local SSDs.
const lssd = "-lssd"

// Family is a machine series as in types.yaml.
type Family struct {
	Name    string  `yaml:"name"`
	CPU     string  `yaml:"cpu"`
	SKU     string  `yaml:"sku"`     // prefix of the descriptions of its vCPUs and memory in the Cloud Billing Catalog
	DiskSKU string  `yaml:"ssd_sku"` // of its local SSDs; empty for those shared by all families
	Date    string  `yaml:"date"`    // when it was read, YYYY-MM-DD
	Source  string  `yaml:"source"`  // a name in the file's sources
	Shapes  []shape `yaml:"shapes"`
	Disks   []disks `yaml:"local_ssd"`
}

type shape struct {
	Name    string             `yaml:"name"`
	GiB     float64            `yaml:"gib"`      // per vCPU
	Sizes   []int              `yaml:"sizes"`    // vCPUs
	Memory  map[string]float64 `yaml:"memory"`   // GiB of sizes that are exceptions, by size
	BuiltIn map[string]int     `yaml:"built_in"` // number of built-in local SSDs, by vCPUs
}

type disks struct {
	VCPUs []int `yaml:"vcpus"` // [from, to]
	Disks []int `yaml:"disks"`
}

type typesDoc struct {
	Sources  map[string]string `yaml:"sources"`
	Families []Family          `yaml:"families"`
}

// Limits on a catalogue: far above any existing machine, and far below an overflow.
const (
	maxFamilies = 100
	maxTypes    = 5000
	maxVCPUs    = 4096
	maxGiB      = 65536
	maxDisks    = 100
)

var (
	familyPattern = regexp.MustCompile(`^[a-z][0-9a-z]{1,5}$`)
	shapePattern  = regexp.MustCompile(`^[a-z]{1,20}$`)
)

// ReadTypes reads a catalogue of machine types. Every error is a *strictyaml.Error with line and column.
func ReadTypes(file string, data []byte) (*Catalogue, error) {
	var d typesDoc
	doc, err := strictyaml.Decode(file, data, &d)
	if err != nil {
		return nil, err
	}
	if len(d.Families) == 0 || len(d.Families) > maxFamilies {
		return nil, doc.Errorf("families", "%d families: give 1 to %d", len(d.Families), maxFamilies)
	}

	c := &Catalogue{types: map[string]Type{}, families: d.Families}
	seen := map[string]bool{}
	for i, f := range d.Families {
		at := fmt.Sprintf("families[%d]", i)
		switch {
		case !familyPattern.MatchString(f.Name) || seen[f.Name]:
			return nil, doc.Errorf(at+".name", "family %.40q: give each family once, by letters and digits", f.Name)
		case f.CPU == "" || f.SKU == "":
			return nil, doc.Errorf(at, "family %s: cpu and sku are needed", f.Name)
		case d.Sources[f.Source] == "":
			return nil, doc.Errorf(at+".source", "family %s: source %.40q is not among sources", f.Name, f.Source)
		}

		if err := checkDate(f.Date); err != nil {
			return nil, doc.Errorf(at+".date", "family %s: %v", f.Name, err)
		}
		seen[f.Name] = true
		if path, err := c.add(f); err != nil {
			return nil, doc.Errorf(at+path, "family %s: %v", f.Name, err)
		}
	}
	return c, nil
}

func checkDate(s string) error {
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		return fmt.Errorf("date %.40q: write YYYY-MM-DD", s)
	}
	return nil
}

// add adds a family's types. On an error, path is its position in the family.
func (c *Catalogue) add(f Family) (path string, err error) {
	for i, d := range f.Disks {
		if err := d.check(); err != nil {
			return fmt.Sprintf(".local_ssd[%d]", i), err
		}
	}

	for i, s := range f.Shapes {
		at := fmt.Sprintf(".shapes[%d]", i)
		if err := s.check(); err != nil {
			return at, err
		}

		for _, vcpus := range s.vcpus() {
			t := Type{Name: fmt.Sprintf("%s-%s-%d", f.Name, s.Name, vcpus), Family: f.Name, Shape: s.Name, CPU: f.CPU,
				VCPUs: vcpus, MemoryBytes: s.memory(vcpus)}
			if len(s.BuiltIn) > 0 {
				t.Name += lssd
				t.BuiltIn = true
				t.Disks = []int{s.BuiltIn[strconv.Itoa(vcpus)]}
			} else {
				t.Disks = disksOf(f.Disks, vcpus)
			}

			if _, twice := c.types[t.Name]; twice {
				return at, fmt.Errorf("%s is there twice", t.Name)
			}
			if len(c.types) >= maxTypes {
				return at, fmt.Errorf("more than %d machine types", maxTypes)
			}
			c.types[t.Name] = t
		}
	}
	return "", nil
}

func (d disks) check() error {
	if len(d.VCPUs) != 2 || d.VCPUs[0] < 1 || d.VCPUs[1] < d.VCPUs[0] || d.VCPUs[1] > maxVCPUs {
		return fmt.Errorf("vcpus takes [from, to], not %v", d.VCPUs)
	}
	for i, n := range d.Disks {
		if n < 1 || n > maxDisks || i > 0 && n <= d.Disks[i-1] {
			return fmt.Errorf("disks %v: give numbers from 1 to %d, ascending", d.Disks, maxDisks)
		}
	}
	if len(d.Disks) == 0 {
		return fmt.Errorf("disks is empty")
	}
	return nil
}

func (s shape) check() error {
	if !shapePattern.MatchString(s.Name) {
		return fmt.Errorf("shape %.40q: use small letters", s.Name)
	}
	if (len(s.Sizes) == 0) == (len(s.BuiltIn) == 0) {
		return fmt.Errorf("%s: give sizes or built_in", s.Name)
	}
	if !(s.GiB > 0) || s.GiB > maxGiB {
		return fmt.Errorf("%s: gib is %v", s.Name, s.GiB)
	}

	for key, gib := range s.Memory {
		if n, err := strconv.Atoi(key); err != nil || !slices.Contains(s.Sizes, n) || !(gib > 0) || gib > maxGiB {
			return fmt.Errorf("%s: memory of %.20q is %v GiB; name one of its sizes, and up to %d GiB", s.Name, key,
				gib, maxGiB)
		}
	}
	for key, n := range s.BuiltIn {
		if _, err := strconv.Atoi(key); err != nil || n < 1 || n > maxDisks {
			return fmt.Errorf("%s: built_in %.20q: %d", s.Name, key, n)
		}
	}
	for _, n := range s.vcpus() {
		if n < 1 || n > maxVCPUs || s.GiB*float64(n) > maxGiB {
			return fmt.Errorf("%s: %d vCPUs with %v GiB each", s.Name, n, s.GiB)
		}
	}
	return nil
}

// vcpus returns the shape's sizes.
func (s shape) vcpus() []int {
	if len(s.BuiltIn) == 0 {
		return s.Sizes
	}
	var out []int
	for _, key := range slices.Sorted(maps.Keys(s.BuiltIn)) {
		n, _ := strconv.Atoi(key) // checked by check
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

func (s shape) memory(vcpus int) int64 {
	gib := s.GiB * float64(vcpus)
	if exception, ok := s.Memory[strconv.Itoa(vcpus)]; ok {
		gib = exception
	}
	return int64(math.Round(gib * (1 << 30)))
}

func disksOf(all []disks, vcpus int) []int {
	for _, d := range all {
		if vcpus >= d.VCPUs[0] && vcpus <= d.VCPUs[1] {
			return d.Disks
		}
	}
	return nil
}
