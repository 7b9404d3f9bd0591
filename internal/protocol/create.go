package protocol

// Creation is the outcome of a create-only write. Its answer may be lost: the storage client then repeats the write and
// hears that the object exists, or it gives up. The object carries an id of this write, so a reader can tell whose it
// is.
type Creation struct {
	Confirmed bool // the store says it created the object
	Refused   bool // the store says the object exists; if neither, the store did not answer
	Read      bool // the existing object could be read
	Own       bool // it equals what was written here, byte for byte
	flaw      flaw
}

// Settled reports whether the existing object is the writer's own, and whether that is known at all. Only a confirmed
// write is taken as such; any other outcome is settled by reading the object.
func (c Creation) Settled() (own, known bool) {
	switch {
	case c.Confirmed:
		return true, true
	case c.flaw == noWriteID:
		return false, c.Refused
	}
	return c.Read && c.Own, c.Read
}
