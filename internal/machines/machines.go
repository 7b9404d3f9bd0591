// Package machines is the catalogue of machine types on which a sweep may run: vCPUs, memory, possible numbers of local
// SSDs, and price by region, on demand and on Spot. The tables are data (types.yaml, prices.yaml), which say where and
// when each entry was read.
package machines

import (
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// DiskBytes is the size of one local SSD.
// Source: https://cloud.google.com/compute/docs/disks/local-ssd
const DiskBytes = 375 << 30

// DiskGiB is the same in the unit of its price.
const DiskGiB = 375

// Type is one machine type.
type Type struct {
	Name        string
	Family      string // such as n2
	Shape       string // such as highmem
	VCPUs       int
	MemoryBytes int64
	MaxTasks    int   // at once: of Batch 20 (https://cloud.google.com/batch/docs/create-run-job)
	Disks       []int // possible numbers of local SSDs, ascending; none if there can be none
	BuiltIn     bool  // it always has exactly Disks[0]
}

// GiB is the memory in the unit of its price.
func (t Type) GiB() float64 { return float64(t.MemoryBytes) / (1 << 30) }

// All returns the known types by name.
func All() []Type {
	types := known().types
	out := make([]Type, 0, len(types))
	for _, name := range slices.Sorted(maps.Keys(types)) {
		out = append(out, types[name])
	}
	return out
}

var namePattern = regexp.MustCompile(`^([a-z][a-z0-9]*-[a-z]+)-([0-9]{1,3})(-lssd)?$`)

// Custom is the family of hosts that are not Google's, named as Google names machines made to measure, with vCPUs and
// memory in MiB: custom-16-65536. They have no price, and disks of their own.
const Custom = "custom"

var customPattern = regexp.MustCompile(`^custom-([1-9][0-9]{0,3})-([1-9][0-9]{2,8})$`)

// Find returns the machine type called name. That is a type in the catalogue, or a host of a cluster, whose name says
// its size (see Custom). For any other name the error is of the kind problem.Input. It suggests similar ones or, for a
// name of another form, says what names look like.
func Find(name string) (Type, error) {
	if t, ok := known().types[name]; ok {
		return t, nil
	}

	if m := customPattern.FindStringSubmatch(name); m != nil {
		vcpus, _ := strconv.Atoi(m[1])
		mib, _ := strconv.ParseInt(m[2], 10, 64)
		return Type{Name: name, Family: Custom, VCPUs: vcpus, MemoryBytes: mib << 20, MaxTasks: 512}, nil
	}

	m := namePattern.FindStringSubmatch(name)
	if m == nil {
		return Type{}, problem.New(problem.Input, "machine type %.60q: expected a family, a shape and a number of "+
			"vCPUs, such as n2-highmem-64", name)
	}

	// Suggest the sizes of this family and shape, or, if there is no such shape, a similar one.
	var kinds, sizes []string
	for _, t := range All() {
		if kind := t.Family + "-" + t.Shape; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		if t.Family+"-"+t.Shape == m[1] {
			sizes = append(sizes, strings.TrimPrefix(t.Name, m[1]+"-"))
		}
	}

	if len(sizes) == 0 {
		return Type{}, problem.New(problem.Input, "machine type %.60q is not in the catalogue%s", name,
			strictyaml.Suggest(m[1], kinds))
	}
	slices.SortFunc(sizes, compareSizes)
	return Type{}, problem.New(problem.Input, "machine type %.60q is not in the catalogue; %s has the sizes %s", name,
		m[1], strings.Join(sizes, ", "))
}

// compareSizes compares the ends of two machine types' names, such as 8 and 16-lssd, by their vCPUs; 8-lssd comes after
// 8.
func compareSizes(a, b string) int {
	x, _ := strconv.Atoi(strings.TrimSuffix(a, lssd))
	y, _ := strconv.Atoi(strings.TrimSuffix(b, lssd))
	if x != y {
		return x - y
	}
	return strings.Compare(a, b)
}

// CheckDisks returns an error of kind Input, which says what to write instead, if the type cannot have n local SSDs.
func (t Type) CheckDisks(n int) error {
	switch {
	case len(t.Disks) == 0: // there is an n2-highmem with each power of two from 2 to 128
		return problem.New(problem.Input, "%s takes no local SSD, where the dataset has to lie; use a type that does, "+
			"such as n2-highmem-%d", t.Name, min(max(2, 1<<bits.Len(uint(t.VCPUs-1))), 128))
	case slices.Contains(t.Disks, n):
		return nil
	case t.BuiltIn:
		return problem.New(problem.Input, "%s comes with %d local SSDs, not %d; leave the number out", t.Name,
			t.Disks[0], n)
	}
	return problem.New(problem.Input, "%s takes %s local SSDs, not %d", t.Name, joinAlternatives(t.Disks), n)
}

// FewestDisks returns the smallest possible number of local SSDs of the type that hold so many bytes, or an error of
// the kind problem.Input if there is none. It is 0 for a cluster's host, which has disks of its own.
func (t Type) FewestDisks(bytes int64) (int, error) {
	for _, n := range t.Disks {
		if int64(n)*DiskBytes >= bytes {
			return n, nil
		}
	}
	if t.Family == Custom {
		return 0, nil
	}
	if len(t.Disks) == 0 {
		return 0, t.CheckDisks(1)
	}
	most := t.Disks[len(t.Disks)-1]
	return 0, problem.New(problem.Input, "%s takes at most %d local SSDs, which hold %d GiB; %d GiB are needed", t.Name,
		most, most*DiskGiB, (bytes-1)>>30+1) // rounded up, so that it is more than they hold
}

// joinAlternatives writes numbers for a message, as in "1, 2 or 4". There has to be one.
func joinAlternatives(counts []int) string {
	words := make([]string, len(counts))
	for i, n := range counts {
		words[i] = strconv.Itoa(n)
	}
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
