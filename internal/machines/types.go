package machines

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"coppice/internal/strictyaml"
)

//go:embed types.yaml
var typesFile []byte

// lssd is the suffix of a type with built-in local SSDs.
const lssd = "-lssd"

// Family is a machine series as in types.yaml.
type Family struct {
	Shapes map[string]shape `yaml:"shapes"`
	Disks  map[string][]int `yaml:"local_ssd"` // possible numbers of local SSDs by vCPUs, "16" or "2-10"
}

type shape struct {
	GiB     float64            `yaml:"gib"`      // per vCPU
	Sizes   []int              `yaml:"sizes"`    // vCPUs
	Memory  map[string]float64 `yaml:"memory"`   // GiB of sizes that are exceptions, by size
	BuiltIn map[string]int     `yaml:"built_in"` // of types that end in -lssd: number of local SSDs, by vCPUs
}

// catalogue is the known machine types: types.yaml, which the tests check.
type catalogue struct {
	types    map[string]Type
	families map[string]Family
}

var known = sync.OnceValue(func() *catalogue {
	c, err := readTypes(typesFile)
	if err != nil {
		panic(fmt.Sprintf("the embedded machine types: %v", err))
	}
	return c
})

// readTypes reads a file such as types.yaml and makes the catalogue: every shape of every family in each of its sizes,
// and the sizes with built-in local SSDs, whose names end in -lssd.
func readTypes(data []byte) (*catalogue, error) {
	c := &catalogue{types: map[string]Type{}}
	if _, err := strictyaml.Decode("types.yaml", data, &c.families); err != nil {
		return nil, err
	}
	for family, f := range c.families {
		for name, s := range f.Shapes {
			add := func(vcpus int, disks []int, suffix string) {
				t := Type{Name: fmt.Sprintf("%s-%s-%d%s", family, name, vcpus, suffix), Family: family, Shape: name,
					VCPUs: vcpus, MemoryBytes: s.memory(vcpus), Disks: disks, MaxTasks: 20, BuiltIn: suffix == lssd}
				c.types[t.Name] = t
			}
			for _, vcpus := range s.Sizes {
				disks, err := f.disks(vcpus)
				if err != nil {
					return nil, fmt.Errorf("%s: local_ssd: %w", family, err)
				}
				add(vcpus, disks, "")
			}
			for size, disks := range s.BuiltIn {
				vcpus, err := strconv.Atoi(size)
				if err != nil {
					return nil, fmt.Errorf("%s: built_in: %w", family, err)
				}
				add(vcpus, []int{disks}, lssd)
			}
		}
	}
	return c, nil
}

// memory returns the bytes of memory of the shape with so many vCPUs.
func (s shape) memory(vcpus int) int64 {
	gib := s.GiB * float64(vcpus)
	if exception, ok := s.Memory[strconv.Itoa(vcpus)]; ok {
		gib = exception
	}
	return int64(math.Round(gib * (1 << 30)))
}

// disks returns the possible numbers of local SSDs of a type of the family with so many vCPUs and without built-in
// disks; none if it can have none. It is an error if two ranges in the file have the vCPUs.
func (f Family) disks(vcpus int) (found []int, err error) {
	for sizes, disks := range f.Disks {
		low, high, isRange := strings.Cut(sizes, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.Atoi(low)
		if err != nil {
			return nil, err
		}
		to, err := strconv.Atoi(high)
		if err != nil {
			return nil, err
		}
		if from > vcpus || vcpus > to {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%d vCPUs are there twice", vcpus)
		}
		found = disks
	}
	return found, nil
}
