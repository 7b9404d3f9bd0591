package protocol

// Creation is how the write of an object went that may be written once. Its answer may be lost: the store's client then writes again
// and hears that something is there already, or it gives up. The object carries an id of that one write, so who reads it knows whose
// it is.
type Creation struct {
	Confirmed bool // the store says that it has created it
	Refused   bool // the store says that something is there; neither: it says nothing
	Read      bool // what is there could be read
	Own       bool // and it is what was written here, byte for byte
	flaw      flaw
}

// Settled says whether the object that is there is the writer's own, and whether that is known at all. Only a write that is confirmed
// is believed; any other outcome is settled by reading.
func (c Creation) Settled() (own, known bool) {
	switch {
	case c.Confirmed:
		return true, true
	case c.flaw == noWriteID:
		return false, c.Refused
	}
	return c.Read && c.Own, c.Read
}
