package batch

import (
	"maps"
	"slices"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// ssdDevice is the local SSD's device name within a job.
const ssdDevice = "local-ssd"

// allocationPolicy says on which machines the job runs, where, as which account and in which network.
func (j Job) allocationPolicy() *batchpb.AllocationPolicy {
	return &batchpb.AllocationPolicy{
		Location: j.location(),
		Instances: []*batchpb.AllocationPolicy_InstancePolicyOrTemplate{{
			PolicyTemplate: &batchpb.AllocationPolicy_InstancePolicyOrTemplate_Policy{Policy: j.instancePolicy()},
		}},
		Labels:         maps.Clone(j.Labels),
		ServiceAccount: j.account(),
		Network:        j.networkPolicy(),
	}
}

// location is one region, or some of its zones.
func (j Job) location() *batchpb.AllocationPolicy_LocationPolicy {
	if len(j.Zones) == 0 {
		return &batchpb.AllocationPolicy_LocationPolicy{AllowedLocations: []string{"regions/" + j.Location}}
	}
	var zones []string
	for _, z := range j.Zones {
		zones = append(zones, "zones/"+z)
	}
	return &batchpb.AllocationPolicy_LocationPolicy{AllowedLocations: zones}
}

// instancePolicy says what each machine is, with which disks, and whether it is a Spot one.
func (j Job) instancePolicy() *batchpb.AllocationPolicy_InstancePolicy {
	model := batchpb.AllocationPolicy_STANDARD
	if j.Spot {
		model = batchpb.AllocationPolicy_SPOT
	}
	return &batchpb.AllocationPolicy_InstancePolicy{
		MachineType: j.MachineType, ProvisioningModel: model, BootDisk: j.bootDisk(), Disks: j.attachedDisks(),
	}
}

// bootDisk is Batch's default, unless the machine supports Hyperdisks only. Its size is left to Batch.
func (j Job) bootDisk() *batchpb.AllocationPolicy_Disk {
	if !slices.Contains(hyperdisks, seriesOf(j.MachineType)) {
		return nil
	}
	return &batchpb.AllocationPolicy_Disk{Type: "hyperdisk-balanced"}
}

// attachedDisks returns a single entry for all local SSDs, with the sum of their sizes, as Batch wants it; none without
// disks.
func (j Job) attachedDisks() []*batchpb.AllocationPolicy_AttachedDisk {
	if j.LocalSSDs == 0 {
		return nil
	}
	return []*batchpb.AllocationPolicy_AttachedDisk{{
		Attached: &batchpb.AllocationPolicy_AttachedDisk_NewDisk{NewDisk: &batchpb.AllocationPolicy_Disk{
			Type: localSSD, SizeGb: int64(j.LocalSSDs) * gbPerLocalSSD,
		}},
		DeviceName: ssdDevice,
	}}
}

func (j Job) account() *batchpb.ServiceAccount {
	if j.ServiceAccount == "" {
		return nil
	}
	return &batchpb.ServiceAccount{Email: j.ServiceAccount}
}

// networkPolicy is nil for a job that names no network and may have external addresses: Batch then takes the project's
// default network.
func (j Job) networkPolicy() *batchpb.AllocationPolicy_NetworkPolicy {
	if j.Network == "" && j.Subnetwork == "" && !j.NoExternalIP {
		return nil
	}
	return &batchpb.AllocationPolicy_NetworkPolicy{NetworkInterfaces: []*batchpb.AllocationPolicy_NetworkInterface{{
		Network: j.Network, Subnetwork: j.Subnetwork, NoExternalIpAddress: j.NoExternalIP,
	}}}
}
