package fallback

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// Verdict is a response decided before the connection reached the listener: an HTTP status from 400 to 599 and a reason for the
// client.
type Verdict struct {
	Status int
	Reason string
}

// Verdicts holds responses for clients whose connections are being handed over to a listener. Such a client is answered once its
// connection is accepted, whatever it has sent, and the connection is closed.
//
// A Verdicts belongs to one VIP, since its key is the client alone. Its methods may be called from any goroutine.
type Verdicts struct {
	max  int
	life time.Duration
	now  func() time.Time

	mu      sync.Mutex
	byAddr  map[netip.AddrPort]*list.Element
	byEntry *list.List // oldest first: all have the same lifetime
}

type verdictEntry struct {
	client  netip.AddrPort
	verdict Verdict
	expires time.Time
}

// NewVerdicts keeps at most max verdicts, each until it is taken or life has passed. When full, the oldest is dropped.
func NewVerdicts(max int, life time.Duration) *Verdicts {
	return &Verdicts{
		max: max, life: life, now: time.Now,
		byAddr: make(map[netip.AddrPort]*list.Element), byEntry: list.New(),
	}
}

// Put records the verdict for a client, in place of an earlier one.
func (v *Verdicts) Put(client netip.AddrPort, verdict Verdict) {
	client = unmapped(client)
	v.mu.Lock()
	defer v.mu.Unlock()
	if old, ok := v.byAddr[client]; ok {
		v.drop(old)
	}
	v.expire()
	for v.byEntry.Len() >= v.max && v.byEntry.Len() > 0 {
		v.drop(v.byEntry.Front())
	}
	v.byAddr[client] = v.byEntry.PushBack(&verdictEntry{client, verdict, v.now().Add(v.life)})
}

// Take returns the verdict for a client and forgets it.
func (v *Verdicts) Take(client netip.AddrPort) (Verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expire()
	e, ok := v.byAddr[unmapped(client)]
	if !ok {
		return Verdict{}, false
	}
	v.drop(e)
	return e.Value.(*verdictEntry).verdict, true
}

// Len is the number of pending verdicts.
func (v *Verdicts) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expire()
	return v.byEntry.Len()
}

func (v *Verdicts) expire() {
	now := v.now()
	for e := v.byEntry.Front(); e != nil && !now.Before(e.Value.(*verdictEntry).expires); e = v.byEntry.Front() {
		v.drop(e)
	}
}

func (v *Verdicts) drop(e *list.Element) {
	delete(v.byAddr, e.Value.(*verdictEntry).client)
	v.byEntry.Remove(e)
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
