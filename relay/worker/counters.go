package worker

import (
	"sync/atomic"

	"baton/relay/trunkproto"
)

// Counters are a worker's counters since its start. They may be read from any goroutine.
type Counters struct {
	Flows            atomic.Uint64                          // started, without probes
	Live             atomic.Int64                           // including probes, which hold the same resources
	Refused          [trunkproto.Stopping + 2]atomic.Uint64 // by status; the last is for unknown statuses
	Copied           atomic.Uint64                          // bytes
	Spliced          atomic.Uint64                          // bytes
	NoPipe           atomic.Uint64                          // splices without a pipe
	Early            atomic.Uint64                          // started by a SYN
	Full             atomic.Uint64                          // times that accepting was suspended
	Waiting          atomic.Int64                           // idle trunks of other relays
	BadTrunkHeaders  atomic.Uint64                          // invalid headers of incoming trunks
	BadHandshakes    atomic.Uint64                          // failed TLS handshakes of incoming trunks
	BadClientHeaders atomic.Uint64
	Probes           atomic.Uint64 // for other relays
	Rerouted         atomic.Uint64 // flows sent by another route because relays did not reach the server
	Expired          [waitKinds]atomic.Uint64
}

var waitNames = [...]string{
	waitHeader: "header", waitConnect: "connect", waitAccept: "accept", waitLook: "idle", waitEnd: "reset", // the others do not end anything
}

// ByStatus returns Refused by the status's name.
func (c *Counters) ByStatus() map[string]uint64 {
	all := map[string]uint64{"other": c.Refused[len(c.Refused)-1].Load()}
	for status := trunkproto.Refused; status <= trunkproto.Stopping; status++ {
		all[status.String()] = c.Refused[status].Load()
	}
	return all
}

// ByWait returns Expired by the name of the wait.
func (c *Counters) ByWait() map[string]uint64 {
	all := make(map[string]uint64)
	for kind, name := range waitNames {
		if name != "" {
			all[name] = c.Expired[kind].Load()
		}
	}
	return all
}

// PoolCounters are the counters of a worker's trunks to one peer.
type PoolCounters struct {
	Ready    atomic.Int64
	Opened   atomic.Uint64
	Taken    atomic.Uint64 // flows that found a ready one
	Missed   atomic.Uint64 // flows that had to wait for one
	Stale    atomic.Uint64 // closed by the peer while ready
	Failed   atomic.Uint64 // could not be opened
	Broken   atomic.Uint64 // before they returned an answer
	Replayed atomic.Uint64 // flows moved to another trunk after that
}

// Counters returns the worker's counters, which the caller only reads.
func (w *Worker) Counters() *Counters { return &w.count }
