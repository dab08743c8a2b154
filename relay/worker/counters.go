package worker

import (
	"sync/atomic"

	"baton/relay/trunkproto"
)

// Counters are what a worker has done since its start. They are read from any goroutine.
type Counters struct {
	Flows            atomic.Uint64                          // begun, without probes
	Live             atomic.Int64                           // with probes: they hold what a flow holds
	Refused          [trunkproto.Stopping + 2]atomic.Uint64 // servers that could not be had, by status; statuses that are not known are the last
	Copied           atomic.Uint64                          // bytes
	Spliced          atomic.Uint64                          // bytes
	NoPipe           atomic.Uint64                          // splices for which no pipe was to be had
	Early            atomic.Uint64                          // flows that were begun by a SYN
	Full             atomic.Uint64                          // times that no more flows were accepted for a while
	Waiting          atomic.Int64                           // trunks of other relays that have no flow yet
	BadTrunkHeaders  atomic.Uint64                          // of trunks
	BadHandshakes    atomic.Uint64                          // TLS handshakes with other relays' trunks that have failed
	BadClientHeaders atomic.Uint64
	Probes           atomic.Uint64 // of other relays'
	Rerouted         atomic.Uint64 // times that a flow was sent by another way, as relays did not reach its server
	Expired          [waitKinds]atomic.Uint64
}

var waitNames = [...]string{
	waitHeader: "header", waitConnect: "connect", waitAccept: "accept", waitLook: "idle", waitEnd: "reset", // the others go on
}

// ByStatus are the refused, by the status's name.
func (c *Counters) ByStatus() map[string]uint64 {
	all := map[string]uint64{"other": c.Refused[len(c.Refused)-1].Load()}
	for status := trunkproto.Refused; status <= trunkproto.Stopping; status++ {
		all[status.String()] = c.Refused[status].Load()
	}
	return all
}

// ByWait are the expired, by what they have waited for.
func (c *Counters) ByWait() map[string]uint64 {
	all := make(map[string]uint64)
	for kind, name := range waitNames {
		if name != "" {
			all[name] = c.Expired[kind].Load()
		}
	}
	return all
}

// PoolCounters are what became of a worker's trunks to one peer.
type PoolCounters struct {
	Ready    atomic.Int64
	Opened   atomic.Uint64
	Taken    atomic.Uint64 // when a flow wanted one
	Missed   atomic.Uint64 // flows that had to wait for one
	Stale    atomic.Uint64 // closed by the peer while they waited
	Failed   atomic.Uint64 // could not be opened
	Broken   atomic.Uint64 // before they had brought an answer
	Replayed atomic.Uint64 // flows that were put on another one then
}

// Counters are the worker's own; the caller only reads.
func (w *Worker) Counters() *Counters { return &w.count }
