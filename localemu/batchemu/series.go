package batchemu

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// The machine series that Batch runs. Written from Google's pages and not from what the project's own client believes,
// so that each can reveal the other's mistakes. Source: https://docs.cloud.google.com/batch/docs/get-started and
// https://docs.cloud.google.com/compute/docs/disks/local-ssd, April 2026.
const supported = " c4 c4a c4d c3 c3d e2 n4 n2d n2 n1 t2d c2 c2d h3 m3 m2 m1 a4 a3 a2 g2 "

// hyperdiskOnly are the series without Persistent Disks.
const hyperdiskOnly = " c4 c4a c4d n4 "

// noLocalSSD are the series to which no local SSD can be attached.
const noLocalSSD = " e2 n4 t2d h3 m2 c3 c3d c4 c4a c4d "

// lssd maps the types whose names end in -lssd to their number of local SSDs.
const lssd = ` c3-standard-4:1 c3-standard-8:2 c3-standard-22:4 c3-standard-44:8 c3-standard-88:16 c3-standard-176:32
 c3d-highmem-8:1 c3d-highmem-16:1 c3d-highmem-30:2 c3d-highmem-60:4 c3d-highmem-90:8 c3d-highmem-180:16 c3d-highmem-360:32
 c4-highmem-4:1 c4-highmem-8:1 c4-highmem-16:2 c4-highmem-24:4 c4-highmem-32:5 c4-highmem-48:8 c4-highmem-96:16 c4-highmem-144:24 c4-highmem-192:32 c4-highmem-288:48
 c4d-highmem-8:1 c4d-highmem-16:1 c4d-highmem-32:2 c4d-highmem-48:4 c4d-highmem-64:6 c4d-highmem-96:8 c4d-highmem-192:16 c4d-highmem-384:32 `

var typePattern = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)+$`)

// checkMachine rejects machines that Batch does not run, and disks that do not fit them.
func checkMachine(policy *batchpb.AllocationPolicy_InstancePolicy) error {
	name := policy.GetMachineType()
	if name == "" { // left to Batch
		return nil
	}
	if !typePattern.MatchString(name) {
		return invalid("machine type %.80q is not a machine type", name)
	}

	family, _, _ := strings.Cut(name, "-")
	if !strings.Contains(supported, " "+family+" ") {
		return invalid("machine type %.80q is not supported by Batch", name)
	}
	if strings.Contains(hyperdiskOnly, " "+family+" ") && policy.GetBootDisk().GetType() != "hyperdisk-balanced" {
		return invalid("boot disk type %.40q is not supported by machine type %s: use hyperdisk-balanced",
			policy.GetBootDisk().GetType(), name)
	}

	disks := 0
	for _, d := range policy.GetDisks() {
		if d.GetNewDisk().GetType() == "local-ssd" {
			disks += int((d.GetNewDisk().GetSizeGb() + diskGB - 1) / diskGB)
		}
	}
	if !mayAttach(name, family, disks) {
		return invalid("%d local SSDs cannot be attached to machine type %s", disks, name)
	}
	return nil
}

// mayAttach reports whether a machine may have that many local SSDs.
func mayAttach(name, family string, disks int) bool {
	if base, ok := strings.CutSuffix(name, "-lssd"); ok {
		_, rest, known := strings.Cut(lssd, " "+base+":")
		if !known {
			return true // a type unknown here; Batch itself would check it
		}
		count, err := strconv.Atoi(strings.Fields(rest)[0])
		return err == nil && disks == count
	}

	if disks == 0 {
		return true
	}
	if strings.Contains(noLocalSSD, " "+family+" ") {
		return false
	}

	// For other types it depends on the number of vCPUs.
	parts := strings.Split(name, "-")
	cpus, err := strconv.Atoi(parts[len(parts)-1])
	if err != nil {
		return true
	}

	var least int
	switch family {
	case "n2":
		least = step(cpus, []int{10, 20, 40, 80, 128}, []int{1, 2, 4, 8, 16})
	case "n2d":
		least = step(cpus, []int{16, 48, 80, 224}, []int{1, 2, 4, 8})
	case "m1":
		return strings.HasPrefix(name, "m1-ultramem-") && (cpus == 40 && disks <= 5 || cpus == 80 && disks <= 8)
	case "m3":
		return disks == 8 || disks == 4 && cpus <= 64
	default:
		return true
	}
	return disks >= least && slices.Contains([]int{1, 2, 4, 8, 16, 24}, disks)
}

// step returns the value of the first bound that is at least v.
func step(v int, bounds, values []int) int {
	for i, b := range bounds {
		if v <= b {
			return values[i]
		}
	}
	return values[len(values)-1]
}
