package plan

import "coppice/machines"

// Shape is the vCPUs and the memory, in bytes, of a Compute Engine machine type. One that is not known is an *Error.
func Shape(machineType string) (vcpus int, memory int64, err error) {
	known, err := machines.Types()
	if err != nil {
		return 0, 0, err
	}
	t, err := known.Find(machineType)
	if err != nil {
		return 0, 0, errorf("%v", err)
	}
	return t.VCPUs, t.MemoryBytes, nil
}
