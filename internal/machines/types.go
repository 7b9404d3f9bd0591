package machines

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"

	"coppice/internal/strictyaml"
)

//go:embed types.yaml
var typesFile []byte

// lssd is the suffix of a type with built-in local SSDs.
const lssd = "-lssd"

// Family is a machine series as in types.yaml.
type Family struct {
	Name   string  `yaml:"name"`
	CPU    string  `yaml:"cpu"`
	Date   string  `yaml:"date"`   // when it was read, YYYY-MM-DD
	Source string  `yaml:"source"` // a name in the file's sources
	Shapes []shape `yaml:"shapes"`
	Disks  []disks `yaml:"local_ssd"`
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

// catalogue is the known machine types: types.yaml, which the tests check.
type catalogue struct {
	types    map[string]Type
	families []Family
}

var known = sync.OnceValue(func() *catalogue {
	c, err := readTypes(typesFile)
	if err != nil {
		panic(fmt.Sprintf("the embedded machine types: %v", err))
	}
	return c
})

func readTypes(data []byte) (*catalogue, error) {
	var d typesDoc
	if _, err := strictyaml.Decode("types.yaml", data, &d); err != nil {
		return nil, err
	}
	c := &catalogue{types: map[string]Type{}, families: d.Families}
	for _, f := range d.Families {
		for _, s := range f.Shapes {
			for _, vcpus := range s.vcpus() {
				t := Type{Name: fmt.Sprintf("%s-%s-%d", f.Name, s.Name, vcpus), Family: f.Name, Shape: s.Name,
					CPU: f.CPU, VCPUs: vcpus, MemoryBytes: s.memory(vcpus), Disks: disksOf(f.Disks, vcpus)}
				if len(s.BuiltIn) > 0 {
					t.Name += lssd
					t.BuiltIn = true
					t.Disks = []int{s.BuiltIn[strconv.Itoa(vcpus)]}
				}
				c.types[t.Name] = t
			}
		}
	}
	return c, nil
}

// vcpus returns the shape's sizes.
func (s shape) vcpus() []int {
	if len(s.BuiltIn) == 0 {
		return s.Sizes
	}
	var out []int
	for _, key := range slices.Sorted(maps.Keys(s.BuiltIn)) {
		n, _ := strconv.Atoi(key)
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
