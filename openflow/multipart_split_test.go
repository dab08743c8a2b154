package openflow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	. "baton/openflow"
)

// TestSplit: the parts are messages, hold all entries in order, none could take one more, and only the last says so.
func TestSplit(t *testing.T) {
	for _, n := range []int{0, 1, 1169, 1170, 5000} { // 1,169 entries of 56 bytes fill a message
		var all, got FlowStatsReply
		for i := range n {
			all = append(all, FlowStats{Cookie: uint64(i)})
		}
		parts := Split(all)
		if want := max(1, (n+1168)/1169); len(parts) != want {
			t.Errorf("%d entries: got %d parts, want %d", n, len(parts), want)
		}
		for i, p := range parts {
			if _, err := Append(nil, 1, p); err != nil {
				t.Error(err)
			}
			if more := p.Flags == MultipartMore; more != (i < len(parts)-1) {
				t.Errorf("%d entries: part %d of %d says more: %v", n, i, len(parts), more)
			}
			got = append(got, p.Body.(FlowStatsReply)...)
		}
		if d := cmp.Diff(all, got); d != "" {
			t.Errorf("%d entries (-want +got):\n%s", n, d)
		}
	}
	if parts := Split(DescReply{Serial: "1"}); len(parts) != 1 || parts[0].Body != (DescReply{Serial: "1"}) {
		t.Errorf("got %+v", parts)
	}
}
