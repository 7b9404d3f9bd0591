package machines

// Families returns the families in the order of the file.
func Families() []Family { return known().families }
