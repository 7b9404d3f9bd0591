package batch

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Local SSDs are disks of one size, with the disk type localSSD.
const (
	localSSD      = "local-ssd"
	gbPerLocalSSD = 375
	maxLocalSSDs  = 48
)

// series are the machine series on which Batch runs jobs.
// Source: https://docs.cloud.google.com/batch/docs/get-started, read in April 2026; Z3, X4, M4, H4D, N4D and T2A are
// not among them.
var series = []string{"a2", "a3", "a4", "c2", "c2d", "c3", "c3d", "c4", "c4a", "c4d", "e2", "g2", "h3", "m1", "m2",
	"m3", "n1", "n2", "n2d", "n4", "t2d"}

// hyperdisks are the series whose boot disk has to be a Hyperdisk.
var hyperdisks = []string{"c4", "c4a", "c4d", "n4"}

var sizedPattern = regexp.MustCompile(`^([a-z][a-z0-9]*)-([a-z]+)-([0-9]{1,3})(-lssd)?$`)

// seriesOf returns the series of a machine type: n2 of n2-highmem-16.
func seriesOf(machineType string) string {
	s, _, _ := strings.Cut(machineType, "-")
	return s
}

// ssdRange is the choice for machines of up to that many vCPUs.
type ssdRange struct {
	vcpus  int
	counts []int
}

// attachable lists the series with a choice of local SSDs, by vCPUs. Source for this and the next two tables:
// https://docs.cloud.google.com/compute/docs/disks/local-ssd, read in April 2026.
var attachable = map[string][]ssdRange{
	"n2": {{10, []int{1, 2, 4, 8, 16, 24}}, {20, []int{2, 4, 8, 16, 24}}, {40, []int{4, 8, 16, 24}},
		{80, []int{8, 16, 24}}, {128, []int{16, 24}}},
	"n2d": {{16, []int{1, 2, 4, 8, 16, 24}}, {48, []int{2, 4, 8, 16, 24}}, {80, []int{4, 8, 16, 24}},
		{224, []int{8, 16, 24}}},
	"m1-ultramem": {{40, []int{1, 2, 3, 4, 5}}, {80, []int{1, 2, 3, 4, 5, 6, 7, 8}}, {160, nil}},
	"m1-megamem":  {{96, nil}},
	"m3-ultramem": {{64, []int{4, 8}}, {128, []int{8}}},
	"m3-megamem":  {{64, []int{4, 8}}, {128, []int{8}}},
}

// builtIn lists the machine types with built-in local SSDs, and how many, by vCPUs.
var builtIn = map[string]map[int]int{
	"c3-standard": {4: 1, 8: 2, 22: 4, 44: 8, 88: 16, 176: 32},
	"c3d-highmem": {8: 1, 16: 1, 30: 2, 60: 4, 90: 8, 180: 16, 360: 32},
	"c4-highmem":  {4: 1, 8: 1, 16: 2, 24: 4, 32: 5, 48: 8, 96: 16, 144: 24, 192: 32, 288: 48},
	"c4d-highmem": {8: 1, 16: 1, 32: 2, 48: 4, 64: 6, 96: 8, 192: 16, 384: 32},
}

// without lists the series to which no local SSD can be attached: those of c3, c3d, c4, c4a and c4d are built in or
// absent.
var without = []string{"m2", "e2", "n4", "t2d", "h3", "c3", "c3d", "c4", "c4a", "c4d"}

// LocalSSDCounts returns how many local SSDs of 375 GB a machine of the type may have: the possible numbers, ascending,
// or none. known is false for a type that is not in the tables above, about which Batch itself decides.
//
// It is for the rule local-ssd-count only. How many disks a job asks for is decided by whoever makes the job, by
// package machines, which has a table of its own.
func LocalSSDCounts(machineType string) (counts []int, known bool) {
	m := sizedPattern.FindStringSubmatch(machineType)
	if m == nil {
		return nil, false
	}
	vcpus, _ := strconv.Atoi(m[3]) // three digits at most

	// A type with built-in disks has a fixed number.
	if m[4] != "" {
		n, ok := builtIn[m[1]+"-"+m[2]][vcpus]
		if !ok {
			return nil, false
		}
		return []int{n}, true
	}

	// A choice by the number of vCPUs, for a whole series (n2) or for one kind of machine in it (m1-ultramem).
	ranges, ok := attachable[m[1]]
	if !ok {
		ranges, ok = attachable[m[1]+"-"+m[2]]
	}
	for _, r := range ranges {
		if vcpus <= r.vcpus {
			return r.counts, true
		}
	}
	return nil, ok || slices.Contains(without, m[1])
}

// countsText writes numbers of disks as in "1, 2, 4"; without any, "none".
func countsText(counts []int) string {
	if len(counts) == 0 {
		return "none"
	}
	var text []string
	for _, n := range counts {
		text = append(text, strconv.Itoa(n))
	}
	return strings.Join(text, ", ")
}
