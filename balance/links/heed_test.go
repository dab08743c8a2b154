package links

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// neighbour is a message about 10.0.0.1 on interface 5: struct ndmsg (linux/neighbour.h), then NDA_DST.
func neighbour(kind uint16, family, state byte) syscall.NetlinkMessage {
	return message(kind, family, 0, 0, 0, 5, 0, 0, 0, state, 0, 0, 1, 8, 0, 1, 0, 10, 0, 0, 1)
}

func message(kind uint16, data ...byte) syscall.NetlinkMessage {
	return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: data}
}

func TestHeed(t *testing.T) {
	gateway := netip.MustParseAddr("10.0.0.1")
	info := func(family byte) []byte {
		return append([]byte{family, 0, 0, 0, 5}, make([]byte, unix.SizeofIfInfomsg-5)...)
	}
	address := []byte{unix.AF_INET, 24, 0, 0, 5, 0, 0, 0}
	route := func(length byte) []byte {
		return append([]byte{unix.AF_INET, length}, make([]byte, unix.SizeofRtMsg-2)...)
	}
	of := func(answers, failed bool) hints {
		return hints{parts: neighbours, heard: []heard{{5, gateway, answers, failed}}}
	}
	tests := []struct {
		name string
		m    syscall.NetlinkMessage
		want hints
	}{
		{"link", message(unix.RTM_NEWLINK, info(unix.AF_UNSPEC)...), hints{parts: interfaces, indexes: []int{5}}},
		{"link gone", message(unix.RTM_DELLINK, info(unix.AF_UNSPEC)...), hints{parts: interfaces, indexes: []int{5}}},
		{"port of a bridge", message(unix.RTM_DELLINK, info(unix.AF_BRIDGE)...), hints{}},
		{"short link", message(unix.RTM_NEWLINK, 0), hints{}},
		{"address", message(unix.RTM_NEWADDR, address...), hints{parts: interfaces, indexes: []int{5}}},
		{"address gone", message(unix.RTM_DELADDR, address...), hints{parts: interfaces, indexes: []int{5}}},
		{"short address", message(unix.RTM_DELADDR, 2), hints{}},
		{"default route", message(unix.RTM_DELROUTE, route(0)...), hints{parts: routes}},
		{"route to somewhere", message(unix.RTM_NEWROUTE, route(24)...), hints{}},
		{"short route", message(unix.RTM_NEWROUTE, 2, 0), hints{}},
		{"answer", neighbour(unix.RTM_NEWNEIGH, unix.AF_INET, unix.NUD_REACHABLE), of(true, false)},
		{"no answer", neighbour(unix.RTM_NEWNEIGH, unix.AF_INET, unix.NUD_FAILED), of(false, true)},
		{"older", neighbour(unix.RTM_NEWNEIGH, unix.AF_INET, unix.NUD_STALE), of(false, false)},
		{"entry gone", neighbour(unix.RTM_DELNEIGH, unix.AF_INET, unix.NUD_REACHABLE), of(false, false)},
		{"entry of a bridge", neighbour(unix.RTM_NEWNEIGH, unix.AF_BRIDGE, unix.NUD_REACHABLE), hints{}},
		{"short entry", message(unix.RTM_NEWNEIGH, 2), hints{}},
		{"entry without address", message(unix.RTM_NEWNEIGH, 2, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 1), hints{}},
		{"something else", message(unix.RTM_NEWRULE), hints{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := heed(tt.m)
			if diff := cmp.Diff(tt.want, got, append(sameAddr, cmp.AllowUnexported(hints{}, heard{}))...); diff != "" {
				t.Errorf("heed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHint: of neighbours that are not gateways nothing is made.
func TestHint(t *testing.T) {
	w := &Watcher{wake: make(chan struct{}, 1), list: []Link{{Index: 5, V4: Family{Gateway: netip.MustParseAddr("10.0.0.1")}}}}
	other := heard{index: 5, address: netip.MustParseAddr("10.0.0.7")}
	w.hint(hints{parts: neighbours, heard: []heard{other, {index: 6, address: netip.MustParseAddr("10.0.0.1")}}})
	if w.hints.parts != 0 || len(w.wake) != 0 {
		t.Errorf("of others' entries came %+v", w.hints)
	}
	w.hint(hints{parts: neighbours, heard: []heard{other, {index: 5, address: netip.MustParseAddr("10.0.0.1"), answers: true}}})
	if w.hints.parts != neighbours || len(w.hints.heard) != 1 || len(w.wake) != 1 {
		t.Errorf("of a gateway's entry came %+v", w.hints)
	}
}

// TestHintOfInterface: routes are read again if the interface is a link's.
func TestHintOfInterface(t *testing.T) {
	for index, want := range map[int]part{5: interfaces | routes, 6: interfaces} {
		w := &Watcher{wake: make(chan struct{}, 1), list: []Link{{Index: 5}}}
		w.hint(hints{parts: interfaces, indexes: []int{index}})
		if w.hints.parts != want {
			t.Errorf("of interface %d came %b, want %b", index, w.hints.parts, want)
		}
	}
}
