package controllers

import (
	"io"
	"net"
	"testing"

	"baton/openflow"
	"baton/openflow/channel"
)

// FuzzTake: whatever messages come, in whatever role, the handler gets none that is malformed, none that a slave may not send and
// none that is not its own; and nothing of the channel is lost by it.
func FuzzTake(f *testing.F) {
	for _, m := range []openflow.Message{
		flowMod, &openflow.RoleRequest{Role: openflow.RoleSlave, Generation: 1}, &openflow.SetConfig{}, &openflow.BundleAdd{},
		&openflow.MultipartRequest{Flags: openflow.MultipartMore, Body: openflow.TableFeaturesBody{{Table: 1}}},
		&openflow.SetControllerID{Controller: 1}, &openflow.PacketOut{Buffer: openflow.NoBuffer, InPort: 1, Data: make([]byte, 14)},
	} {
		b, err := openflow.Append(nil, 1, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(b, b...))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		s := newStage(t, nil)
		s.handle = func(c *Channel, xid uint32, m openflow.Message, raw []byte) {
			if err := openflow.Check(m); err != nil {
				t.Fatalf("handled what is malformed: %v", err)
			}
			if c.Role() == openflow.RoleSlave && writes(m) {
				t.Fatalf("handled a slave's %T", m)
			}
			switch m.(type) {
			case *openflow.RoleRequest, *openflow.BarrierRequest, *openflow.FeaturesRequest, *openflow.SetAsync, *openflow.Error:
				t.Fatalf("handled %T", m)
			}
		}
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		o := &origin{peers: peers()}
		conn := channel.Start(here, channel.Options{})
		defer conn.Close()
		c := newChannel(t.Context(), s.Controllers, o, conn, "")
		defer c.close()
		taken := 0
		for len(stream) > 0 {
			h, err := openflow.ParseHeader(stream)
			if err != nil || int(h.Length) > len(stream) {
				break
			}
			raw := stream[:h.Length]
			stream = stream[h.Length:]
			if _, m, err := openflow.Decode(raw); err == nil {
				c.take(h.XID, m, raw)
				taken++
			}
		}
		if got := o.counts.received.Load(); got != uint64(taken) || c.parts.bytes > maxParts {
			t.Fatalf("%d messages of %d, %d bytes of parts", got, taken, c.parts.bytes)
		}
	})
}
