//go:build !linux

package doctor

// here adds that the local cloud answers; how much memory and disk is free is only known on Linux.
func (d *Doctor) here() {
	d.add("local cloud", OK, "this machine", "", "it answers at %s", d.Deployment.InspectEndpoint)
}
