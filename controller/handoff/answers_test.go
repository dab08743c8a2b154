package handoff

import (
	"fmt"
	"testing"
	"time"

	"baton/controller/switches"
	"baton/packet"
)

// TestUnanswered: the copies of what the surrogate sends last until its answer begins. If that takes too long, it is counted, once.
func TestUnanswered(t *testing.T) {
	for _, tt := range []struct {
		name       string
		play       func(*play)
		heard      string
		unanswered uint64
		copies     int // entries that are left
	}{
		{"it answers in time", func(p *play) { p.say(serverAt, routerAt, packet.ACK|packet.PSH, 6000, 5090, 500) }, "[true]", 0, 0},
		{"it acknowledges again, and does not answer", func(p *play) { p.say(serverAt, routerAt, packet.ACK, 6000, 5090, 0) }, "[false]", 1, 1},
		{"its client has gone", func(p *play) { p.say(clientAt, serviceAt, packet.FIN|packet.ACK, 178, 1000, 0) }, "[]", 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var kept []Record
			var heard []bool
			p := newPlay(t, Options{Keep: func(r Record) { kept = append(kept, r) }, Heard: func(_ string, answered bool) { heard = append(heard, answered) }})
			p.handedOver(&kept)
			tt.play(p)
			p.mu.Lock()
			p.overdue(time.Now())
			early := p.counts.Unanswered["se1"]
			for range 2 {
				p.overdue(time.Now().Add(p.o.Answer + time.Second))
			}
			p.mu.Unlock()
			copies := 0
			for _, m := range p.net.entries[3] {
				if m.Priority == switches.PriorityAnswer {
					copies++
				}
			}
			if got := p.Counts().Unanswered["se1"]; early != 0 || got != tt.unanswered || fmt.Sprint(heard) != tt.heard || copies != tt.copies {
				t.Errorf("%d unanswered, %d of them too early; heard %v; %d copies", got, early, heard, copies)
			}
		})
	}
}
