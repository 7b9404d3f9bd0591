package plan

// Shape is the vCPUs and the memory, in bytes, of a Compute Engine machine type. One that is not known is an *Error.
func Shape(machineType string) (vcpus int, memory int64, err error) { return machine(machineType) }
