package forwarder_test

import (
	"testing"
	"time"

	"baton/lab"
	of "baton/openflow"
)

// TestBarrier: once a barrier is answered, no packet that is sent later goes by what was there before it. A stream of numbered packets from
// port 1 is switched to and fro between ports 2 and 3.
func TestBarrier(t *testing.T) {
	all := of.Match{}.Port(1)
	inTable := func(table of.TableID, m *of.FlowMod) *of.FlowMod { m.Table = table; return m }
	command := func(c of.FlowModCommand, m *of.FlowMod) *of.FlowMod { m.Command = c; return m }
	next := func(table of.TableID) *of.FlowMod {
		m := add(5, all)
		m.Instructions = []of.Instruction{of.InstructionGotoTable{Table: table}}
		return m
	}
	bucket := func(weight uint16, port of.PortNo, more ...of.Action) []of.Bucket {
		return []of.Bucket{{Weight: weight, WatchPort: of.PortAny, WatchGroup: of.GroupAny, Actions: append(more, output(port))}}
	}
	group := func(c of.GroupCommand, kind of.GroupType, b []of.Bucket) *of.GroupMod {
		return &of.GroupMod{Command: c, Kind: kind, Group: 4, Buckets: b}
	}
	tests := []struct {
		name   string
		first  []of.Message // leads to port 2, once to has been called for it
		to     func(port of.PortNo) []of.Message
		rounds int
	}{
		{"an entry is modified", []of.Message{add(5, all, output(2))},
			func(p of.PortNo) []of.Message {
				return []of.Message{command(of.FlowModifyStrict, add(5, all, output(p)))}
			}, 200},
		{"an entry is replaced", nil,
			func(p of.PortNo) []of.Message { return []of.Message{add(5, all, output(p))} }, 200},
		{"an entry comes above another and goes", []of.Message{add(5, all, output(2))}, func(p of.PortNo) []of.Message {
			above := add(9, of.Match{}.Port(1).Uint(of.FieldEthType, 0x0800), output(3))
			if p == 2 {
				above.Command = of.FlowDeleteStrict
			}
			return []of.Message{above}
		}, 200},
		{"in a later table", []of.Message{next(200)},
			func(p of.PortNo) []of.Message { return []of.Message{inTable(200, add(5, all, output(p)))} }, 200},
		{"another table is gone to", []of.Message{inTable(2, add(0, nil, output(2))), inTable(3, add(0, nil, output(3)))},
			func(p of.PortNo) []of.Message { return []of.Message{next(of.TableID(p))} }, 200},
		{"a select group is modified", []of.Message{group(of.GroupAdd, of.GroupTypeSelect, bucket(1, 2)), add(5, all, of.ActionGroup{Group: 4})},
			func(p of.PortNo) []of.Message {
				return []of.Message{group(of.GroupModify, of.GroupTypeSelect, bucket(1, p))}
			}, 200},
		{"a group whose copies are changed is modified", []of.Message{group(of.GroupAdd, of.GroupTypeAll, bucket(0, 2, of.ActionDecNWTTL{})),
			add(5, all, of.ActionGroup{Group: 4})},
			func(p of.PortNo) []of.Message {
				return []of.Message{group(of.GroupModify, of.GroupTypeAll, bucket(0, p, of.ActionDecNWTTL{}))}
			}, 200},
	}
	s := newStage(t, 3, lab.LinkOptions{})
	s.start("")
	c := s.connect()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := *s
			s.t = t
			s.commit(c, command(of.FlowDelete, inTable(of.TableAll, add(0, nil))),
				&of.GroupMod{Command: of.GroupDelete, Group: of.GroupAll})
			s.commit(c, tt.first...)
			s.commit(c, tt.to(2)...)
			came := s.ways(2, 3)
			r := s.send(1, 2, 5000, 50*time.Microsecond)
			type turn struct {
				port        of.PortNo
				first, last uint64 // of the numbers that may go to that port alone
			}
			turns := []turn{{port: 2, first: 1}}
			for round := range tt.rounds {
				r.more(4)
				port := of.PortNo(3 - round%2)
				turns[round].last = r.next.Load() - 1 // the last one may not have been sent yet
				s.commit(c, tt.to(port)...)
				turns = append(turns, turn{port: port, first: r.next.Load() + 1})
			}
			r.more(4)
			r.end()
			turns[tt.rounds].last = r.next.Load()
			if err := came.all(r.next.Load()); err != nil {
				t.Fatal(err)
			}
			for i, turn := range turns {
				for n := turn.first; n <= turn.last; n++ {
					if at := came.of(n); len(at) != 1 || at[0] != turn.port {
						t.Errorf("turn %d: packet %d of %d to %d came out of %v, want port %v", i, n, turn.first, turn.last, at, turn.port)
					}
				}
			}
		})
	}
}
