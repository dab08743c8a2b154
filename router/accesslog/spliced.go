package accesslog

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	kernel "baton/datapath/router"
	"baton/router/state"
)

// LostInKernel is the reason of records that the kernel had no room for. They are lost to each output.
const LostInKernel = "kernel"

// KernelRecords writes the kernel's records of what it has spliced into the access log.
type KernelRecords struct {
	kernel *kernel.Router
	log    *slog.Logger
	to     *Writer
	logs   *kernel.Logs // nil: no VIP has been logged. Start sets it, before Run, and Close reads it, after Run.

	mu         sync.Mutex // guards the names
	surrogates map[numberedAddress]string
	pools      map[uint16]string

	records []Record
	bytes   []byte // what they refer to
}

// NewKernelRecords makes a KernelRecords, which reads nothing before Run.
func NewKernelRecords(k *kernel.Router, to *Writer, log *slog.Logger) *KernelRecords {
	return &KernelRecords{kernel: k, to: to, log: log}
}

// numberedAddress identifies a surrogate in a record: its number may be another's by now.
type numberedAddress struct {
	id      uint16
	address netip.AddrPort
}

// maxNames bounds the names of surrogates that are kept: beyond it, only those of the configuration in force.
const maxNames = 4 * kernel.MaxSurrogates

// LearnNames keeps the names in a configuration, which records of sessions carry as numbers: also when the next one no longer has them.
func (l *KernelRecords) LearnNames(c *state.Compiled) error {
	names, err := l.kernel.PoolNames()
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
	for _, p := range c.Numbered {
		for i, sg := range p.Config.Surrogates {
			now[numberedAddress{p.IDs[i], sg.Address}] = sg.Name
		}
	}
	if len(l.surrogates)+len(now) < maxNames {
		for n, name := range l.surrogates {
			now[n] = cmp.Or(now[n], name)
		}
	}
	l.surrogates = now
	return nil
}

// Start has spawn call Run once a VIP is logged. One call at a time.
func (l *KernelRecords) Start(spawn func(task func(ctx context.Context) error)) (err error) {
	if l.logs != nil || !l.kernel.HasLogs() {
		return nil
	}
	if l.logs, err = l.kernel.Logs(); err != nil {
		return err
	}
	spawn(func(ctx context.Context) error {
		l.run(ctx)
		return nil
	})
	return nil
}

// run writes records until ctx is done.
func (l *KernelRecords) run(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := l.logs.Read(l.add); err != nil {
			l.log.Error("cannot read the kernel's log records", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		l.write()
	}
}

// Close writes the records that are there. Later ones wait in the kernel for the next process.
func (l *KernelRecords) Close() {
	if l.logs == nil {
		return
	}
	for all := false; !all; {
		var err error
		if all, err = l.logs.Rest(l.add); err != nil {
			l.log.Error("cannot read the kernel's log records", "err", err)
			all = true
		}
		l.write()
	}
	_ = l.logs.Close()
}

func (l *KernelRecords) write() {
	l.to.Write(l.records)
	clear(l.records)
	l.records, l.bytes = l.records[:0], l.bytes[:0]
}

// add keeps a record for the next write.
func (l *KernelRecords) add(k *kernel.LogRecord) {
	rec := splicedRecord(k, l.keep(k.Name), l.keep(k.Head))
	l.mu.Lock()
	rec.Surrogate, rec.Pool = l.surrogates[numberedAddress{k.Surrogate, k.Server}], l.pools[k.Pool]
	l.mu.Unlock()
	l.records = append(l.records, rec)
}

// keep copies bytes of a record. Earlier copies stay where they are.
func (l *KernelRecords) keep(b []byte) []byte {
	from := len(l.bytes)
	l.bytes = append(l.bytes, b...)
	return l.bytes[from:len(l.bytes):len(l.bytes)]
}

// splicedRecord is the record of what was spliced, without the names of its numbers.
func splicedRecord(k *kernel.LogRecord, name, head []byte) Record {
	rec := Record{
		Time: k.Time, ID: k.ID, Client: k.Client, VIP: k.VIP, SurrogateAddress: k.Server, Status: int(k.Status),
		FromClient: k.ToServer, FromSurrogate: k.ToClient, WholeSession: k.Whole, FirstByte: k.FirstByte, Duration: k.Duration,
		ClientRetransmissions: k.ClientRetransmissions, SurrogateRetransmissions: k.ServerRetransmissions, End: endOf(k),
	}
	if k.TLS {
		rec.Protocol, rec.Host = TLS, name
		return rec
	}
	name, _, _ = bytes.Cut(name, []byte("\r"))
	rec.Host = bytes.TrimSpace(name)
	readHead(head, &rec)
	switch k.Minor {
	case '0':
		rec.Version = HTTP10
	case '1':
		rec.Version = HTTP11
	}
	return rec
}

// endOf is how a record ended. The end that sent the first FIN counts, as a reset may only answer it.
func endOf(k *kernel.LogRecord) End {
	if k.Complete {
		return Complete
	}
	switch k.End {
	case kernel.Expired:
		return Timeout
	case kernel.Replaced:
		return Replaced
	case kernel.Failed, kernel.Abandoned:
		return Moved
	case kernel.Refused: // not the leg: a later request, whose surrogate is down
		return Failed
	case kernel.Cut:
		return Cut
	case kernel.Malformed:
		return Malformed
	}
	switch {
	case k.ClientFirst && !k.Unfinished:
		return ClientFIN
	case k.ServerFirst && !k.Unfinished:
		return ServerFIN
	case k.ClientFirst || k.End == kernel.ClientReset && !k.ServerFirst:
		return ClientRST
	}
	return ServerRST
}

// readHead takes from the beginning of a request's head what is whole in it.
func readHead(head []byte, rec *Record) {
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
		rec.Version = HTTP10
	case "HTTP/1.1":
		rec.Version = HTTP11
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
