package controllers

import (
	"bytes"
	"net"
	"path/filepath"
	"testing"

	"baton/forwarder/config"
	"baton/openflow"
)

// BenchmarkFlowMods: how fast a controller's flow mods come to the handler, over a socket.
func BenchmarkFlowMods(b *testing.B) {
	path := filepath.Join(b.TempDir(), "forwarder")
	s := newStage(b, func(c *config.Config) {
		c.Listen = []config.Listener{{Listen: config.Endpoint{Method: "unix", Address: path}, Peers: peers()}}
	})
	s.quiet = true
	rw, err := net.Dial("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer rw.Close()
	m := openflow.NewFlowMod(openflow.FlowAdd)
	m.Match = openflow.Match{}.Port(1)
	m.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: []openflow.Action{openflow.ActionOutput{Port: 2}}}}
	write(b, rw, encode(b, 1, openflow.NewHello()))
	if _, ok := read(b, rw).(*openflow.Hello); !ok {
		b.Fatal("no hello")
	}
	const batch = 1000
	mods := bytes.Repeat(encode(b, 5, m), batch)
	b.ReportAllocs()
	for b.Loop() {
		write(b, rw, mods)
		write(b, rw, encode(b, 6, &openflow.BarrierRequest{}))
		read(b, rw)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/mod")
}

// BenchmarkPacketIn: for one controller, and for two.
func BenchmarkPacketIn(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(map[int]string{1: "one", 2: "two"}[n], func(b *testing.B) {
			s := newStage(b, nil)
			for range n {
				c := s.controller(b, of{})
				go func() {
					for {
						if _, err := c.Receive(b.Context()); err != nil {
							return
						}
					}
				}()
			}
			m := &openflow.PacketIn{Buffer: openflow.NoBuffer, TotalLen: 64, Match: openflow.Match{}.Port(1), Data: make([]byte, 64)}
			b.ReportAllocs()
			for b.Loop() {
				s.PacketIn(m, openflow.MaxLenNoBuffer)
			}
			b.ReportMetric(float64(s.Status()[0].Dropped)/float64(b.N), "dropped/op")
		})
	}
}
