package machines

// Families returns the families by name.
func Families() map[string]Family { return known().families }
