package forwarder_test

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"baton/lab"
	of "baton/openflow"
	"baton/openflow/channel"
)

// refused fails unless the error is that one message was refused with a code.
func refused(t *testing.T, err error, want of.Code) {
	t.Helper()
	var r *channel.Refused
	if !errors.As(err, &r) || r.Answer.Code != want {
		t.Errorf("%v, want %v", err, want)
	}
}

// raw is a connection on which a test writes the bytes itself.
type raw struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (s *stage) raw(t *testing.T) *raw {
	t.Helper()
	conn, err := s.node.Dial(within(t), "tcp", strings.TrimPrefix(endpoint, "tcp:"))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	c := &raw{conn, t, bufio.NewReader(conn)}
	c.send("04000008 00000000")
	return c
}

func (c *raw) send(text string) {
	c.t.Helper()
	_, err := c.Write(unhex(c.t, text))
	must(c.t, err)
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	must(t, err)
	return b
}

// answer reads on until a message with that transaction id.
func (c *raw) answer(xid uint32) (of.Message, error) {
	for {
		head := make([]byte, of.HeaderSize)
		if _, err := io.ReadFull(c.r, head); err != nil {
			return nil, err
		}
		b := append(head, make([]byte, int(binary.BigEndian.Uint16(head[2:]))-len(head))...)
		if _, err := io.ReadFull(c.r, b[len(head):]); err != nil {
			return nil, err
		}
		if h, m, err := of.Decode(b); err != nil {
			return nil, err
		} else if h.XID == xid {
			return m, nil
		}
	}
}

// TestMalformed: what is wrong with a message is answered as the specification names it, and the next one is heard. All of them have the
// transaction id 0xabc.
func TestMalformed(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	const none = "ffffffff ffffffff ffffffff 0000 0000"
	flowMod := func(length, command, rest string) string {
		return "040e" + length + "00000abc 0000000000000000 0000000000000000 " + command + " 0000 0000 8000 " + none + rest
	}
	const any = "0001 0004 00000000"
	tests := []struct {
		name, message string
		want          of.Code
	}{
		{"type 30", "041e0008 00000abc", of.BadRequestBadType},
		{"type 255 with a body", "04ff000c 00000abc 01020304", of.BadRequestBadType},
		{"a message of a switch", "0406 0020 00000abc 0000000000000001 00000000 fe000000 00000000 00000000", of.BadRequestBadType},
		{"version 1", "01020008 00000abc", of.BadRequestBadVersion},
		{"version 6", "06020008 00000abc", of.BadRequestBadVersion},
		{"barrier with a body", "04140010 00000abc 0000000000000000", of.BadRequestBadLen},
		{"flow mod that ends in its header", "040e0010 00000abc 0000000000000000", of.BadRequestBadLen},
		{"flow mod, command 9", flowMod("0038", "0009", any), of.FlowModFailedBadCommand},
		{"flow mod, table 255", flowMod("0038", "ff00", any), of.FlowModFailedBadTableID},
		{"flow mod, flags", "040e0038 00000abc 0000000000000000 0000000000000000 0000 0000 0000 8000 ffffffff ffffffff ffffffff 8000 0000" + any,
			of.FlowModFailedBadFlags},
		{"flow mod with a buffer", "040e0038 00000abc 0000000000000000 0000000000000000 0000 0000 0000 8000 00000005 ffffffff ffffffff 0000 0000" + any,
			of.BadRequestBufferUnknown},
		{"match of another type", flowMod("0038", "0000", "0000 0004 00000000"), of.BadMatchBadType},
		{"match beyond the message", flowMod("0038", "0000", "0001 0040 00000000"), of.BadMatchBadLen},
		{"field that is not known", flowMod("0040", "0000", "0001 000c 80007e04 00000001 00000000"), of.BadMatchBadField},
		{"field of a wrong length", flowMod("0038", "0000", "0001 0008 80000a00"), of.BadMatchBadLen},
		{"field twice", flowMod("0048", "0000", "0001 0014 80000004 00000001 80000004 00000002 00000000"), of.BadMatchDupField},
		{"field without what it needs", flowMod("0040", "0000", "0001 000a 80001c02 0050 000000000000"), of.BadMatchBadPrereq},
		{"value beyond the mask", flowMod("0048", "0000", "0001 0014 8000070c 0000000000ff 000000000000 00000000"), of.BadMatchBadWildcards},
		{"value that there is not", flowMod("0040", "0000", "0001 000a 80000c02 ffff 000000000000"), of.BadMatchBadValue},
		{"instruction that is not known", flowMod("0040", "0000", any+"0077 0008 00000000"), of.BadInstructionUnknownInst},
		{"instruction of no length", flowMod("0040", "0000", any+"0001 0000 01000000"), of.BadInstructionBadLen},
		{"instruction beyond the message", flowMod("0040", "0000", any+"0001 0010 01000000"), of.BadInstructionBadLen},
		{"goto back", flowMod("0040", "0400", any+"0001 0008 04000000"), of.BadInstructionBadTableID},
		{"action that is not known", flowMod("0048", "0000", any+"0004 0010 00000000 0077 0008 00000000"), of.BadActionBadType},
		{"action of no length", flowMod("0048", "0000", any+"0004 0010 00000000 0000 0000 00000000"), of.BadActionBadLen},
		{"action of another experimenter", flowMod("0048", "0000", any+"0004 0010 00000000 ffff 0008 00123456"), of.BadActionBadExperimenter},
		{"output to port 0", flowMod("0050", "0000", any+"0004 0018 00000000 0000 0010 00000000 0000 000000000000"), of.BadActionBadOutPort},
		{"group that is not there", flowMod("0048", "0000", any+"0004 0010 00000000 0016 0008 00000063"), of.BadActionBadOutGroup},
		{"field that cannot be set", flowMod("0050", "0000", any+"0004 0018 00000000 0019 0010 80000004 00000001 00000000"), of.BadActionBadSetType},
		{"tag of another EtherType", flowMod("0048", "0000", any+"0004 0010 00000000 0011 0008 1234 0000"), of.BadActionBadArgument},
		{"meter that is not there", flowMod("0040", "0000", any+"0006 0008 00000009"), of.MeterModFailedUnknownMeter},
		{"group mod, command 9", "040f0010 00000abc 0009 00 00 00000001", of.GroupModFailedBadCommand},
		{"group mod, type 9", "040f0010 00000abc 0000 09 00 00000001", of.GroupModFailedBadType},
		{"group that is not there is modified", "040f0010 00000abc 0001 00 00 00000001", of.GroupModFailedUnknownGroup},
		{"group of a number that is kept", "040f0010 00000abc 0000 00 00 ffffffff", of.GroupModFailedInvalidGroup},
		{"bucket beyond the message", "040f0020 00000abc 0000 00 00 00000001 0020 0000 ffffffff ffffffff 00000000", of.GroupModFailedBadBucket},
		{"meter mod, command 9", "041d0010 00000abc 0009 0001 00000001", of.MeterModFailedBadCommand},
		{"meter that is not there is modified", "041d0010 00000abc 0001 0001 00000001", of.MeterModFailedUnknownMeter},
		{"port mod of port 9", "04100028 00000abc 00000009 00000000 020000000001 0000 00000000 00000000 00000000 00000000", of.PortModFailedBadPort},
		{"port mod of another address", "04100028 00000abc 00000001 00000000 020000000001 0000 00000000 00000000 00000000 00000000",
			of.PortModFailedBadHWAddr},
		{"table mod of table 255", "04110010 00000abc fe000000 00000000", of.TableModFailedBadTable},
		{"multipart, type 77", "04120010 00000abc 004d 0000 00000000", of.BadRequestBadMultipart},
		{"multipart, short", "0412000c 00000abc 0001 0000", of.BadRequestBadLen},
		{"flow statistics, short", "04120018 00000abc 0001 0000 00000000 ff000000 ffffffff", of.BadRequestBadLen},
		{"statistics of port 9", "04120018 00000abc 0004 0000 00000000 00000009 00000000", of.BadRequestBadPort},
		{"experimenter that is not known", "04040010 00000abc 00123456 00000001", of.BadRequestBadExperimenter},
		{"role 9", "04180018 00000abc 00000009 00000000 0000000000000001", of.RoleRequestFailedBadRole},
		{"reassembly of fragments", "0409000c 00000abc 0002 0080", of.SwitchConfigFailedBadFlags},
	}
	c := s.raw(t)
	for i, tt := range tests {
		c.send(tt.message)
		m, err := c.answer(0xabc)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if e, ok := m.(*of.Error); !ok || e.Code != tt.want {
			t.Errorf("%s: %T %+v, want %v", tt.name, m, m, tt.want)
		}
		echo := uint32(0x1000 + i)
		c.send(fmt.Sprintf("0402000c %08x 01020304", echo))
		if m, err := c.answer(echo); err != nil || m.Type() != of.TypeEchoReply {
			t.Fatalf("after %s: %v, %v", tt.name, m, err)
		}
	}
	if flows := s.ofctl("dump-flows"); strings.Contains(flows, "cookie=") {
		t.Errorf("refused messages have left\n%s", flows)
	}
}

// TestLongest: messages of the greatest length that there is are taken, answered or refused like others.
func TestLongest(t *testing.T) {
	s := newStage(t, 1, lab.LinkOptions{})
	s.start("")
	c := s.raw(t)
	body := strings.Repeat("5a", of.MaxLength-of.HeaderSize)
	c.send("0402ffff 00000abc" + body)
	m, err := c.answer(0xabc)
	must(t, err)
	if e, ok := m.(*of.EchoReply); !ok || len(e.Data) != of.MaxLength-of.HeaderSize {
		t.Errorf("echo: %T", m)
	}
	for name, message := range map[string]string{
		"unknown type": "0440ffff 00000abd", "experimenter": "0404ffff 00000abd", "flow mod": "040effff 00000abd", "features": "0405ffff 00000abd",
	} {
		c.send(message + body)
		m, err := c.answer(0xabd)
		must(t, err)
		if _, ok := m.(*of.Error); !ok {
			t.Errorf("%s: %T", name, m)
		}
	}
	c.send("04020008 00000abe")
	if m, err := c.answer(0xabe); err != nil || m.Type() != of.TypeEchoReply {
		t.Errorf("afterwards: %v, %v", m, err)
	}
}

// TestLengthBelowHeader: behind a length below the header's own no message can be found, so that the channel ends, with the reason;
// others go on.
func TestLengthBelowHeader(t *testing.T) {
	s := newStage(t, 1, lab.LinkOptions{})
	s.start("")
	other := s.connect()
	for range 20 {
		c := s.raw(t)
		c.send("04020007 00000abc 00000000")
		m, err := c.answer(0xabc)
		if e, ok := m.(*of.Error); !ok || e.Code != of.BadRequestBadLen {
			t.Fatalf("got %+v, %v", m, err)
		}
		if m, err := c.answer(0xabc); !errors.Is(err, io.EOF) {
			t.Fatalf("the channel goes on: %+v, %v", m, err)
		}
	}
	s.commit(other)
}

// TestFull: what is too much is refused with the code for it, and what is there goes on.
func TestFull(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("limits: {entries: 100, groups: 3, meters: 2, cache: 64}")
	c := s.connect()
	for i := range 100 {
		s.commit(c, add(uint16(10+i), udp(1, uint64(5000+i)), output(2)))
	}
	more := add(1, udp(1, 9000), output(2))
	refused(t, c.Commit(s.within(), more), of.FlowModFailedTableFull)
	for i := range 3 {
		s.commit(c, &of.GroupMod{Command: of.GroupAdd, Group: of.GroupID(i + 1)})
	}
	refused(t, c.Commit(s.within(), &of.GroupMod{Command: of.GroupAdd, Group: 9}), of.GroupModFailedOutOfGroups)
	meter := func(id of.MeterID) *of.MeterMod {
		return &of.MeterMod{Command: of.MeterAdd, Flags: of.MeterFlagKbps, Meter: id, Bands: []of.Band{{Kind: of.BandDrop, Rate: 1000}}}
	}
	s.commit(c, meter(1), meter(2))
	refused(t, c.Commit(s.within(), meter(3)), of.MeterModFailedOutOfMeters)

	// What is there can be replaced, and there is room again for what comes in the place of something.
	s.commit(c, add(10, udp(1, 5000), of.ActionDecNWTTL{}, output(2)))
	gone := add(11, udp(1, 5001))
	gone.Command = of.FlowDeleteStrict
	s.commit(c, gone, more)
	for _, port := range []int{5000, 9000} {
		k, r := s.sink(2, port), s.send(1, 2, port, time.Millisecond)
		r.more(5)
		k.arrived(t, 0)
		r.end()
	}
	if n := ask[of.AggregateReply](s, c, of.AggregateRequest{FlowQuery: of.NewFlowQuery()}).Flows; n != 100 {
		t.Errorf("%d flow entries", n)
	}
}

// TestGroupsBeyondKernel: groups of so many buckets that the kernel's arrays are full before the pipeline is. The refused one is not there
// afterwards, the others are.
func TestGroupsBeyondKernel(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("limits: {entries: 100, groups: 64, meters: 2, cache: 64}")
	c := s.connect()
	wide := &of.GroupMod{Command: of.GroupAdd, Kind: of.GroupTypeSelect}
	for range 250 {
		wide.Buckets = append(wide.Buckets, of.Bucket{Weight: 1, WatchPort: of.PortAny, WatchGroup: of.GroupAny, Actions: []of.Action{output(2)}})
	}
	fits := 0
	for id := of.GroupID(1); id <= 64; id++ {
		wide.Group = id
		err := c.Commit(s.within(), wide)
		if err == nil {
			fits++
			continue
		}
		refused(t, err, of.GroupModFailedOutOfGroups)
		break
	}
	if fits == 0 || fits == 64 {
		t.Fatalf("%d groups of 250 buckets fit; the test needs less", fits)
	}
	refused(t, c.Commit(s.within(), add(5, udp(1, 5000), of.ActionGroup{Group: wide.Group})), of.BadActionBadOutGroup)
	s.commit(c, add(5, udp(1, 5000), of.ActionGroup{Group: 1}))
	k, r := s.sink(2, 5000), s.send(1, 2, 5000, time.Millisecond)
	r.more(20)
	r.end()
	if lost := k.lost(r); len(lost) > 0 {
		t.Errorf("%d packets lost by a group that fits", len(lost))
	}
}
