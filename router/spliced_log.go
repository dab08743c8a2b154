package router

import (
	"bytes"
	"cmp"
	"context"
	"net/netip"
	"sync"
	"time"

	kernel "baton/datapath/router"
	"baton/router/accesslog"
)

// lostInKernel is the reason of records that the kernel had no room for. They are lost to each output.
const lostInKernel = "kernel"

// splicedLog writes the kernel's records of what it has spliced into the access log.
type splicedLog struct {
	r    *Router
	logs *kernel.Logs // nil: no VIP has been logged

	mu         sync.Mutex
	surrogates map[numberedAddress]string
	pools      map[uint16]string

	records []accesslog.Record
	bytes   []byte // what they refer to
}

// numberedAddress identifies a surrogate in a record: its number may be another's by now.
type numberedAddress struct {
	id      uint16
	address netip.AddrPort
}

// mostNames bounds the names of surrogates that are kept: beyond it, those of the configuration in force alone.
const mostNames = 4 * kernel.MaxSurrogates

// learn keeps the names in a state, which records of sessions carry as numbers: also when the next state has them no more.
func (l *splicedLog) learn(s *state) error {
	names, err := l.r.dp.PoolNames()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pools = make(map[uint16]string)
	for name, id := range names {
		l.pools[id] = name
	}
	now := make(map[numberedAddress]string)
	for _, p := range s.pools {
		for i, sg := range p.cfg.Surrogates {
			now[numberedAddress{p.ids[i], sg.Address}] = sg.Name
		}
	}
	if len(l.surrogates)+len(now) < mostNames {
		for n, name := range l.surrogates {
			now[n] = cmp.Or(now[n], name)
		}
	}
	l.surrogates = now
	return nil
}

// start begins reading once a VIP is logged.
func (l *splicedLog) start() (err error) {
	if l.logs != nil || !l.r.dp.HasLogs() {
		return nil
	}
	if l.logs, err = l.r.dp.Logs(); err != nil {
		return err
	}
	l.r.group.Go(func() error {
		l.run(l.r.ctx)
		return nil
	})
	return nil
}

// run writes records until ctx is done.
func (l *splicedLog) run(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := l.logs.Read(l.add); err != nil {
			l.r.log.Error("cannot read the kernel's log records", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		l.write()
	}
}

// close writes the records that are there. Later ones wait in the kernel for the next process.
func (l *splicedLog) close() {
	if l.logs == nil {
		return
	}
	for all := false; !all; {
		var err error
		if all, err = l.logs.Rest(l.add); err != nil {
			l.r.log.Error("cannot read the kernel's log records", "err", err)
			all = true
		}
		l.write()
	}
	_ = l.logs.Close()
}

func (l *splicedLog) write() {
	l.r.access.Write(l.records)
	clear(l.records)
	l.records, l.bytes = l.records[:0], l.bytes[:0]
}

// add keeps a record for the next write.
func (l *splicedLog) add(k *kernel.LogRecord) {
	rec := splicedRecord(k, l.keep(k.Name), l.keep(k.Head))
	l.mu.Lock()
	rec.Surrogate, rec.Pool = l.surrogates[numberedAddress{k.Surrogate, k.Server}], l.pools[k.Pool]
	l.mu.Unlock()
	l.records = append(l.records, rec)
}

// keep copies bytes of a record. Earlier copies stay where they are.
func (l *splicedLog) keep(b []byte) []byte {
	from := len(l.bytes)
	l.bytes = append(l.bytes, b...)
	return l.bytes[from:len(l.bytes):len(l.bytes)]
}

// splicedRecord is the record of what was spliced, without the names of its numbers.
func splicedRecord(k *kernel.LogRecord, name, head []byte) accesslog.Record {
	rec := accesslog.Record{
		Time: k.Time, ID: k.ID, Client: k.Client, VIP: k.VIP, SurrogateAddress: k.Server, Status: int(k.Status),
		FromClient: k.ToServer, FromSurrogate: k.ToClient, WholeSession: k.Whole, FirstByte: k.FirstByte, Duration: k.Duration,
		ClientRetransmissions: k.ClientRetransmissions, SurrogateRetransmissions: k.ServerRetransmissions, End: endOf(k),
	}
	if k.TLS {
		rec.Protocol, rec.Host = accesslog.TLS, name
		return rec
	}
	name, _, _ = bytes.Cut(name, []byte("\r"))
	rec.Host = bytes.TrimSpace(name)
	readHead(head, &rec)
	switch k.Minor {
	case '0':
		rec.Version = accesslog.HTTP10
	case '1':
		rec.Version = accesslog.HTTP11
	}
	return rec
}

// endOf is how a record ended. The end that sent the first FIN counts, as a reset may only answer it.
func endOf(k *kernel.LogRecord) accesslog.End {
	if k.Complete {
		return accesslog.Complete
	}
	switch k.End {
	case kernel.Expired:
		return accesslog.Timeout
	case kernel.Replaced:
		return accesslog.Replaced
	case kernel.Failed, kernel.Abandoned:
		return accesslog.Moved
	case kernel.Refused: // not the leg: a later request, whose surrogate is down
		return accesslog.Failed
	case kernel.Cut:
		return accesslog.Cut
	case kernel.Malformed:
		return accesslog.Malformed
	}
	switch {
	case k.ClientFirst && !k.Unfinished:
		return accesslog.ClientFIN
	case k.ServerFirst && !k.Unfinished:
		return accesslog.ServerFIN
	case k.ClientFirst || k.End == kernel.ClientReset && !k.ServerFirst:
		return accesslog.ClientRST
	}
	return accesslog.ServerRST
}

// readHead takes from the beginning of a request's head what is whole in it.
func readHead(head []byte, rec *accesslog.Record) {
	head = bytes.TrimPrefix(head, []byte("\r\n")) // as head.Parse does
	line, rest, whole := bytes.Cut(head, []byte("\r\n"))
	method, target, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return
	}
	path, version, ok := bytes.Cut(target, []byte(" "))
	rec.Method, rec.Path, rec.PathCut = method, path, !ok
	switch string(version) {
	case "HTTP/1.0":
		rec.Version = accesslog.HTTP10
	case "HTTP/1.1":
		rec.Version = accesslog.HTTP11
	}
	for whole {
		if line, rest, whole = bytes.Cut(rest, []byte("\r\n")); !whole || len(line) == 0 {
			return
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case len(name) == len("Host") && bytes.EqualFold(name, []byte("Host")) && len(rec.Host) == 0:
			rec.Host = value
		case bytes.EqualFold(name, []byte("User-Agent")):
			rec.UserAgent = value
		case bytes.EqualFold(name, []byte("Referer")):
			rec.Referer = value
		}
	}
}
