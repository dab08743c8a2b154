package install

import (
	"testing"

	"baton/openflow"
)

// TestChangedGroupsGoOnCounting: a group that is modified keeps its counters, and its buckets begin anew [6.5]; so do a meter and its bands [6.6].
func TestChangedGroupsGoOnCounting(t *testing.T) {
	r := newRig(t, small)
	group := &openflow.GroupMod{Command: openflow.GroupAdd, Kind: openflow.GroupTypeAll, Group: 1, Buckets: []openflow.Bucket{
		{WatchPort: openflow.PortAny, WatchGroup: openflow.GroupAny, Actions: []openflow.Action{out(nowhere)}},
	}}
	if !r.do(group) {
		t.Fatal("refused")
	}
	r.flow(0, 0, nil, r.meter(openflow.MeterFlagPktps|openflow.MeterFlagBurst, openflow.Band{Kind: openflow.BandDrop, Rate: 1 << 30, Burst: 1 << 30}),
		apply(openflow.ActionGroup{Group: 1}))
	const n = 5
	r.pour(n, udp(1, 53))
	group.Command = openflow.GroupModify
	r.do(group)
	r.do(&openflow.MeterMod{Command: openflow.MeterModify, Meter: 1, Flags: openflow.MeterFlagPktps, Bands: []openflow.Band{
		{Kind: openflow.BandDrop, Rate: 1 << 30},
	}})
	if all, each := r.installed.Group(1); all.Packets != n || each[0].Packets != 0 {
		t.Errorf("group: %+v, %+v", all, each)
	}
	if all, each := r.installed.Meter(1); all.Packets != n || each[0].Packets != 0 {
		t.Errorf("meter: %+v, %+v", all, each)
	}
	r.pour(n, udp(1, 53))
	if all, each := r.installed.Group(1); all.Packets != 2*n || each[0].Packets != n {
		t.Errorf("group: %+v, %+v", all, each)
	}
	r.deleteAll()
	r.do(&openflow.GroupMod{Command: openflow.GroupAdd, Kind: openflow.GroupTypeAll, Group: 1})
	if all, _ := r.installed.Group(1); all.Packets != 0 {
		t.Errorf("another group of that number has counted %+v", all)
	}
}
